// The threads of the operating system that share a launch's blocks, and an eye on them.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda.h"
#include "fiber.h"

namespace emulator {

struct Worker {
  std::thread thread;
  std::atomic<u32> pulse{0};  // of its block
  bool ended = false;
};

class Workers {
 public:
  // Every thread calls `work` with the pulse that it has to keep up.
  template <class Work> Workers(u32 count, const Work& work) : workers_(count), running_(count) {
    for (Worker& worker : workers_) {
      worker.thread = std::thread([this, &worker, &work] {
        work(worker.pulse);
        const std::lock_guard<std::mutex> lock(mutex_);
        worker.ended = true;
        running_--;
        one_ended_.notify_one();
      });
    }
  }
  ~Workers() {
    for (Worker& worker : workers_)
      worker.thread.join();
  }
  // Returns when all have ended. One whose pulse has stood still for so long is interrupted, after `give_up()`.
  template <class GiveUp> void wait(u32 patience, const GiveUp& give_up) {
    constexpr u32 LOOKS_A_SECOND = 4;
    const auto pause = std::chrono::milliseconds(1000 / LOOKS_A_SECOND);
    std::vector<u32> seen(workers_.size()), still(workers_.size());
    std::unique_lock<std::mutex> lock(mutex_);
    while (!one_ended_.wait_for(lock, pause, [this] { return running_ == 0; })) {
      u32 i = 0;
      for (Worker& worker : workers_) {
        const u32 pulse = worker.pulse.load(std::memory_order_relaxed);
        // Looks are counted, not seconds: a process that was stopped for a while is no endless loop.
        still[i] = pulse == seen[i] ? still[i] + 1 : 0;
        if (!worker.ended && still[i] > patience * LOOKS_A_SECOND) {
          give_up();
          CrashHandler::interrupt(worker.thread);
          still[i] = 0;
        }
        seen[i++] = pulse;
      }
    }
  }

 private:
  std::deque<Worker> workers_;
  std::size_t running_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
};

}  // namespace emulator
