// RowFiles: files of rows that `nearfield upload` reads back to the same rows, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/vector_file.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

struct RowFilesOptions {
  std::string path;
  FileFormat format = FileFormat::kJsonl;  // or kNpy
  // Separate files of a .npy file; empty: not written. Ids: .npy (numbers), .jsonl, or else a text.
  std::string ids_path;
  std::string payloads_path;
  std::string attributes_path;
};

// Checks what does not need the rows. Errors: InvalidArgument (an option that the format does not
// have; two files of one name; the form of the ids file does not fit the type of the ids; an
// attribute whose name a .jsonl file of rows uses for another member).
absl::Status CheckRowFiles(const RowFilesOptions& options, const CollectionSpec& spec);

// Not thread-safe. If it is destroyed before Publish, no file has its name.
class RowFiles {
 public:
  virtual ~RowFiles() = default;
  // Writes rows with vectors, and with the payloads and attributes that the files need. Errors: of
  // the file system; InvalidArgument (an id that the form of the ids file cannot hold; names it).
  virtual absl::Status Write(const ScanPage& page) = 0;
  // Gives all files their names. Errors: of the file system.
  virtual absl::Status Publish() = 0;
  virtual uint64_t bytes() const = 0;  // of all files
};

// Requires: CheckRowFiles is OK. `rows_count`: rows that will be written.
absl::StatusOr<std::unique_ptr<RowFiles>> CreateRowFiles(const RowFilesOptions& options,
                                                         const CollectionSpec& spec,
                                                         uint64_t rows_count);

// Returns the command that makes a collection with the declaration of `spec` and these rows: an
// upload of the files; without rows, the creation of the collection.
std::string CommandToMakeAgain(const RowFilesOptions& options, const CollectionSpec& spec,
                               uint64_t rows_count);

}  // namespace nearfield::client
