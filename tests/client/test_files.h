// Input files for the tests of the client's readers, in memory and on disk.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield::client {

// A temporary folder, removed by the destructor.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "nearfield-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Returns a .npy file with that header text, padded as NumPy pads it.
inline std::string Npy(std::string header, std::string_view data, int version = 1) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (size_t i = 0; i < length_bytes; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(data);
}

inline std::string NpyHeaderText(const std::string& descr, const std::string& shape,
                                 bool fortran_order = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

inline std::string Fbin(int32_t rows, int32_t dim, const std::vector<float>& values) {
  return Bytes(std::vector<int32_t>{rows, dim}) + Bytes(values);
}

// Returns an .fvecs file; each row may have its own dimension.
inline std::string Fvecs(const std::vector<std::vector<float>>& rows) {
  std::string file;
  for (const auto& row : rows) {
    file += Bytes(std::vector<int32_t>{static_cast<int32_t>(row.size())}) + Bytes(row);
  }
  return file;
}

}  // namespace nearfield::client
