package apply

import (
	"sync"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

var sessionSchema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema([]byte(sessionSchemaJSON)) })

const sessionSchemaJSON = `{
  "type": "object", "additionalProperties": false, "required": ["name", "timeslot", "parts"],
  "properties": {
    "name": {"type": "string", "description": "the name of the session"},
    "timeslot": {
      "type": "object", "additionalProperties": false, "required": ["end"],
      "properties": {
        "provisionAt": {"$ref": "#/$defs/time"}, "start": {"$ref": "#/$defs/time"},
        "end": {"$ref": "#/$defs/time"}, "cleanupDeadline": {"$ref": "#/$defs/time"}
      }
    },
    "onFailure": {"$ref": "#/$defs/action"},
    "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}}
  },
  "$defs": {
    "time": {"type": "string", "description": "a time such as 2026-03-01T09:00:00Z, or such as in 90m"},
    "span": {"type": "string", "description": "a span of time such as 90m"},
    "size": {"type": "string", "description": "a size such as 512m or 2g"},
    "name": {"type": "string", "description": "a name"},
    "names": {"type": "array", "items": {"$ref": "#/$defs/name"}},
    "action": {"enum": ["abort", "continue"]},
    "part": {
      "type": "object", "additionalProperties": false, "required": ["name"],
      "properties": {
        "name": {"$ref": "#/$defs/name"},
        "after": {"type": "array", "items": {
          "type": "object", "additionalProperties": false,
          "properties": {
            "part": {"$ref": "#/$defs/name"}, "phase": {"type": "string", "description": "PART/PHASE"},
            "at": {"$ref": "#/$defs/time"}, "event": {"type": "string", "description": "the type of an event"}
          }
        }},
        "onFailure": {"$ref": "#/$defs/action"},
        "pods": {"type": "array", "items": {"$ref": "#/$defs/pod"}},
        "phases": {"type": "array", "items": {"$ref": "#/$defs/phase"}}
      }
    },
    "pod": {
      "type": "object", "additionalProperties": false, "required": ["name", "compose"],
      "properties": {
        "name": {"$ref": "#/$defs/name"},
        "compose": {"type": ["string", "object"], "description": "a Compose file, or what would be in one"},
        "cpus": {"type": "number", "minimum": 0, "description": "a number of CPUs"},
        "memory": {"$ref": "#/$defs/size"},
        "gpus": {
          "type": "object", "additionalProperties": false, "required": ["count"],
          "properties": {
            "count": {"type": "integer", "minimum": 1, "description": "a number of GPUs"},
            "vendor": {"$ref": "#/$defs/name"}, "model": {"$ref": "#/$defs/name"}, "memory": {"$ref": "#/$defs/size"}
          }
        },
        "arch": {"$ref": "#/$defs/name"},
        "selector": {
          "type": "object", "additionalProperties": false,
          "properties": {
            "tags": {"$ref": "#/$defs/names"}, "tagsAny": {"$ref": "#/$defs/names"}, "hosts": {"$ref": "#/$defs/names"},
            "channel": {"$ref": "#/$defs/name"}
          }
        },
        "spread": {"type": "object", "additionalProperties": false, "properties": {"tags": {"$ref": "#/$defs/names"}}},
        "antiAffinity": {"$ref": "#/$defs/names"}
      }
    },
    "phase": {
      "type": "object", "additionalProperties": false, "required": ["name"],
      "properties": {
        "name": {"$ref": "#/$defs/name"},
        "call": {
          "type": "object", "additionalProperties": false, "required": ["url"],
          "properties": {
            "url": {"type": "string", "description": "a URL"},
            "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
            "body": {"description": "what is sent, as JSON"}
          }
        },
        "await": {"type": "string", "description": "the type of an event"},
        "timeout": {"$ref": "#/$defs/span"},
        "retries": {"type": "integer", "minimum": 0, "description": "a number"}
      }
    }
  }
}`
