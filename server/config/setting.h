// One setting of the server. Its name, default, unit, limits and help are declared once, where it
// is a member of Settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace nearfield::server {

// Returns InvalidArgument with the present name if earlier versions called a setting `name`.
// `place` begins the message.
absl::Status CheckNotRenamed(std::string_view place, std::string_view name);

// The source of the value in force. Later sources win.
enum class SettingSource : uint8_t { kDefault, kFile, kEnvironment, kFlag };
std::string_view SettingSourceName(SettingSource source);

class SettingBase;

// The settings of one Settings object, in the order of their declaration.
class SettingList {
 public:
  SettingList() = default;
  SettingList(const SettingList&) = delete;
  SettingList& operator=(const SettingList&) = delete;
  const std::vector<SettingBase*>& all() const { return all_; }

 private:
  friend class SettingBase;
  std::vector<SettingBase*> all_;
};

class SettingBase {
 public:
  SettingBase(SettingList& list, std::string name, std::string help)
      : name_(std::move(name)), help_(std::move(help)) {
    list.all_.push_back(this);
  }
  virtual ~SettingBase() = default;
  SettingBase(const SettingBase&) = delete;
  SettingBase& operator=(const SettingBase&) = delete;

  // The key in the configuration file: "k_max". The flag is "--k-max", the environment variable
  // "NEARFIELD_K_MAX".
  const std::string& name() const { return name_; }
  std::string flag() const;
  std::string environment() const;
  const std::string& help() const { return help_; }
  SettingSource source() const { return source_; }

  // Sets the value from `text`. Errors: InvalidArgument naming the setting, the text and the
  // allowed values.
  absl::Status Set(std::string_view text, SettingSource source);
  // Returns the value in force, in the form that Set accepts.
  virtual std::string Text() const = 0;
  // Returns the allowed values: "1 .. 4096", "auto|cpu|gpu".
  virtual std::string Allowed() const = 0;
  // Returns the kind of value for --help: "NUMBER", or the choices.
  virtual std::string Kind() const { return "NUMBER"; }
  virtual bool is_switch() const { return false; }

 protected:
  // Returns false and changes nothing if `text` is not a value of this setting.
  virtual bool Parse(std::string_view text) = 0;

 private:
  std::string name_;
  std::string help_;
  SettingSource source_ = SettingSource::kDefault;
};

struct Range {
  int64_t min = 0;
  int64_t max = 0;
};
constexpr Range Between(int64_t min, int64_t max) { return {.min = min, .max = max}; }

// An integer.
class NumberSetting : public SettingBase {
 public:
  NumberSetting(SettingList& list, std::string name, int64_t value, Range range, std::string help)
      : SettingBase(list, std::move(name), std::move(help)), value_(value), range_(range) {}
  int64_t value() const { return value_; }
  std::string Text() const override;
  std::string Allowed() const override;

 protected:
  bool Parse(std::string_view text) override;
  bool Assign(int64_t value);
  Range range() const { return range_; }

 private:
  int64_t value_;
  Range range_;
};

// A number of bytes: "67108864", "64MiB"; KiB, MiB, GiB, TiB.
class BytesSetting : public NumberSetting {
 public:
  using NumberSetting::NumberSetting;
  std::string Text() const override;
  std::string Allowed() const override;
  std::string Kind() const override { return "BYTES"; }
  // If the default is in force and larger, lowers it to `bytes` or to the smallest allowed value. A
  // value that was set explicitly does not change.
  void LowerDefault(int64_t bytes);

 protected:
  bool Parse(std::string_view text) override;
};

// Any text that a configuration file can quote: no control characters, quotes or backslashes.
class TextSetting : public SettingBase {
 public:
  TextSetting(SettingList& list, std::string name, std::string value, std::string help)
      : SettingBase(list, std::move(name), std::move(help)), value_(std::move(value)) {}
  const std::string& value() const { return value_; }
  // Sets a default that is known only at run time. A value that was set explicitly does not change.
  void SetDefault(std::string value) {
    if (source() == SettingSource::kDefault) value_ = std::move(value);
  }
  // Replaces the value by an equivalent one of the same source.
  void Replace(std::string value) { value_ = std::move(value); }
  std::string Text() const override { return value_; }
  std::string Allowed() const override {
    return "text without quotes, backslashes and control characters";
  }
  std::string Kind() const override { return "TEXT"; }

 protected:
  bool Parse(std::string_view text) override;

 private:
  std::string value_;
};

// One of a fixed list of words.
class ChoiceSetting : public SettingBase {
 public:
  // `choices`: "auto|cpu|gpu"; the first is the default.
  ChoiceSetting(SettingList& list, std::string name, std::string choices, std::string help)
      : SettingBase(list, std::move(name), std::move(help)),
        choices_(std::move(choices)),
        value_(choices_.substr(0, choices_.find('|'))) {}
  const std::string& value() const { return value_; }
  std::string Text() const override { return value_; }
  std::string Allowed() const override { return choices_; }
  std::string Kind() const override { return choices_; }

 protected:
  bool Parse(std::string_view text) override;

 private:
  std::string choices_;
  std::string value_;
};

// A boolean: "true" or "false".
class SwitchSetting : public SettingBase {
 public:
  SwitchSetting(SettingList& list, std::string name, bool value, std::string help)
      : SettingBase(list, std::move(name), std::move(help)), value_(value) {}
  bool value() const { return value_; }
  std::string Text() const override { return value_ ? "true" : "false"; }
  std::string Allowed() const override { return "true|false"; }
  bool is_switch() const override { return true; }

 protected:
  bool Parse(std::string_view text) override;

 private:
  bool value_;
};

}  // namespace nearfield::server
