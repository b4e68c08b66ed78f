// Runs an exported ONNX policy on observations, as a planner on board would, without torch.
//
//   run_onnx DQN.onnx observations.txt
//
// A line holds the numbers of all inputs, in their order: 7 + 25 + 5 (self_state, objects_state row
// by row, objects_mask) and, for agents that take them, the fractions; they are passed on in double or
// single precision, as the file takes them. The outputs come out one line an observation, tensor
// after tensor; the last is the action. docs/export.md has the compiler's command line.

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace {

template <typename Number>
void write(const Ort::Value& output) {
  const auto count = output.GetTensorTypeAndShapeInfo().GetElementCount();
  const auto* numbers = output.GetTensorData<Number>();
  for (std::size_t i = 0; i < count; ++i) std::cout << numbers[i] << ' ';
}

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> found;
  for (const auto& name : names) found.push_back(name.c_str());
  return found;
}

int run(const char* model, const char* observations) {
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "run_onnx");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  Ort::Session session(env, model, options);
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<std::string> inputs, outputs;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::size_t> counts;
  std::vector<ONNXTensorElementDataType> kinds;
  for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
    inputs.emplace_back(session.GetInputNameAllocated(i, allocator).get());
    const auto type = session.GetInputTypeInfo(i);
    kinds.push_back(type.GetTensorTypeAndShapeInfo().GetElementType());
    auto shape = type.GetTensorTypeAndShapeInfo().GetShape();
    shape[0] = 1;  // of any size
    counts.push_back(
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
    shapes.push_back(std::move(shape));
  }
  for (std::size_t i = 0; i < session.GetOutputCount(); ++i)
    outputs.emplace_back(session.GetOutputNameAllocated(i, allocator).get());
  const auto input_names = pointers(inputs), output_names = pointers(outputs);
  const auto needed = std::accumulate(counts.begin(), counts.end(), std::size_t{0});

  std::ifstream file(observations);
  if (!file) {
    std::cerr << observations << ": cannot be read\n";
    return 2;
  }
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::cout << std::setprecision(17);
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    std::vector<double> numbers{std::istream_iterator<double>(stream), {}};
    if (numbers.size() != needed) {
      std::cerr << observations << ": a line has " << numbers.size() << " numbers, not " << needed
                << '\n';
      return 2;
    }
    std::vector<float> rounded(numbers.begin(), numbers.end());
    std::vector<Ort::Value> given;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < inputs.size(); begin += counts[i++]) {
      const auto& shape = shapes[i];
      if (kinds[i] == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
        given.push_back(Ort::Value::CreateTensor<float>(memory, rounded.data() + begin, counts[i],
                                                        shape.data(), shape.size()));
      } else {
        given.push_back(Ort::Value::CreateTensor<double>(memory, numbers.data() + begin, counts[i],
                                                         shape.data(), shape.size()));
      }
    }
    const auto results = session.Run(Ort::RunOptions{nullptr}, input_names.data(), given.data(),
                                     given.size(), output_names.data(), outputs.size());
    for (const auto& output : results) {
      const auto type = output.GetTensorTypeAndShapeInfo().GetElementType();
      if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
        write<int64_t>(output);
      } else if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
        write<float>(output);
      } else {
        write<double>(output);
      }
    }
    std::cout << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: run_onnx MODEL.onnx OBSERVATIONS.txt\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const Ort::Exception& error) {
    std::cerr << argv[1] << ": " << error.what() << '\n';
    return 2;
  }
}
