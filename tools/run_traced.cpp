// Runs an exported TorchScript policy on observations, as a planner on board would.
//
//   run_traced traced_DQN_model.pt observations.txt
//
// A line holds 7 + 25 + 5 numbers (self_state, objects_state row by row, objects_mask) and, for
// agents that take them, the fractions. The outputs come out one line an observation, tensor after
// tensor. docs/export.md has the compiler's command line.

#include <torch/script.h>

#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kSelf = 7, kObjects = 5, kObject = 5;
constexpr std::size_t kNumbers = kSelf + kObjects * kObject + kObjects;

void write(const torch::Tensor& output) {
  const auto flat = output.contiguous().flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) std::cout << flat[i].item<double>() << ' ';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: run_traced MODEL.pt OBSERVATIONS.txt\n";
    return 2;
  }
  torch::NoGradGuard no_grad;
  torch::jit::Module model;
  try {
    model = torch::jit::load(argv[1], torch::kCPU);
  } catch (const c10::Error& error) {
    std::cerr << argv[1] << ": cannot be loaded as a TorchScript model\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  if (!file) {
    std::cerr << argv[2] << ": cannot be read\n";
    return 2;
  }
  std::cout << std::setprecision(17);
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    const std::vector<double> numbers{std::istream_iterator<double>(stream), {}};
    if (numbers.size() < kNumbers) {
      std::cerr << argv[2] << ": a line has " << numbers.size() << " numbers, and needs at least "
                << kNumbers << '\n';
      return 2;
    }
    const auto all = torch::tensor(numbers, torch::kFloat64).unsqueeze(0);
    auto part = [&all, begin = int64_t{0}](int64_t count) mutable {
      begin += count;
      return all.slice(1, begin - count, begin);
    };
    auto self_state = part(kSelf);
    auto objects_state = part(kObjects * kObject).view({1, kObjects, kObject});
    auto objects_mask = part(kObjects);
    auto taus = part(all.size(1) - kSelf - kObjects * kObject - kObjects);

    std::vector<c10::IValue> observation{self_state, objects_state, objects_mask};
    std::vector<c10::IValue> arguments;
    arguments.emplace_back(c10::ivalue::Tuple::create(std::move(observation)));
    if (taus.size(1) > 0) arguments.emplace_back(taus);
    const auto results = model.forward(arguments);
    if (results.isTuple()) {
      for (const auto& output : results.toTuple()->elements()) write(output.toTensor());
    } else {
      write(results.toTensor());
    }
    std::cout << '\n';
  }
}
