// What Kineto recorded (GPU work, runtime calls) has its arguments as JSON only: those activities are written as trace
// events for the reader.
#pragma once

#include "pools.h"

#include <ActivityType.h>
#include <ITraceActivity.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace profsuite {

// The elements of a traceEvents array.
class ActivityJson {
 public:
  // Those that PyTorch did not record; with `all` the others too.
  void write(const std::vector<const libkineto::ITraceActivity*>& activities, bool all) {
    for (const auto* activity : activities) {
      if (all || !in_tree(activity->type())) {
        write(*activity);
      }
    }
  }

  std::string json;
  int64_t num_json = 0;

 private:
  static bool in_tree(libkineto::ActivityType type) {
    using libkineto::ActivityType;
    return type == ActivityType::CPU_OP || type == ActivityType::USER_ANNOTATION ||
        type == ActivityType::PYTHON_FUNCTION || type == ActivityType::CPU_INSTANT_EVENT;
  }

  void quote(std::string_view text) {
    json += '"';
    for (char c : text) {
      if (c == '"' || c == '\\') {
        json += '\\';
        json += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
        json += escaped;
      } else {
        json += c;
      }
    }
    json += '"';
  }

  void number(const char* key, int64_t value) {
    json += key;
    json += std::to_string(value);
  }

  void time(const char* key, int64_t ns) {
    char text[48];
    std::snprintf(text, sizeof(text), "%s%" PRId64 ".%03" PRId64, key, ns / 1000, ns % 1000);
    json += text;
  }

  void write(const libkineto::ITraceActivity& activity) {
    using libkineto::ActivityType;
    auto type = activity.type();
    auto resource = activity.resourceId();
    resource = resource == kNull ? 0 : std::abs(resource);
    auto process = type == ActivityType::PYTHON_FUNCTION ? process_of(activity.deviceId()) : activity.deviceId();
    json += json.empty() ? "{" : ",\n{";
    num_json++;
    if (type == ActivityType::CPU_INSTANT_EVENT) {
      json += "\"ph\":\"i\",\"s\":\"t\",\"cat\":";
    } else {
      json += "\"ph\":\"X\",\"cat\":";
    }
    quote(libkineto::toString(type));
    json += ",\"name\":";
    quote(activity.name());
    number(",\"pid\":", process);
    number(",\"tid\":", resource);
    time(",\"ts\":", activity.timestamp());
    if (type != ActivityType::CPU_INSTANT_EVENT) {
      time(",\"dur\":", std::max<int64_t>(activity.duration(), 0));
    }
    json += ",\"args\":{";
    bool first = true;
    auto comma = [&] {
      if (!first) {
        json += ',';
      }
      first = false;
    };
    const auto* linked = activity.linkedActivity();
    int64_t external = linked ? linked->correlationId() : 0;
    bool work = type == ActivityType::GPU_MEMCPY || type == ActivityType::GPU_MEMSET ||
        type == ActivityType::CONCURRENT_KERNEL || type == ActivityType::CUDA_RUNTIME ||
        type == ActivityType::CUDA_DRIVER || type == ActivityType::PRIVATEUSE1_RUNTIME ||
        type == ActivityType::PRIVATEUSE1_DRIVER;
    if (!external && !work) {
      external = activity.correlationId();
    }
    if (external) {
      comma();
      number("\"External id\":", external);
    }
    auto add = [&](const std::string& text) {
      if (!text.empty()) {
        comma();
        json += text;
      }
    };
    add(activity.metadataJson());
    if (type == ActivityType::CONCURRENT_KERNEL && linked && linked->name() == "record_param_comms") {
      add(linked->metadataJson());
    }
    json += "}}";
    if (activity.flowId() > 0) {
      num_json++;
      const char* name = activity.flowType() == 1 ? "fwdbwd" : "ac2g";
      json += activity.flowStart() ? ",\n{\"ph\":\"s\"" : ",\n{\"ph\":\"f\",\"bp\":\"e\"";
      number(",\"id\":", activity.flowId());
      number(",\"pid\":", activity.deviceId());
      number(",\"tid\":", resource);
      time(",\"ts\":", activity.timestamp());
      json += ",\"cat\":\"";
      json += name;
      json += "\",\"name\":\"";
      json += name;
      json += "\"}";
    }
  }
};

} // namespace profsuite
