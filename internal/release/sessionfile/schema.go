package sessionfile

import (
	"sync"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

var (
	sessionSchema  = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema([]byte(sessionSchemaJSON + parts + defs)) })
	templateSchema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema([]byte(templateSchemaJSON + parts + defs)) })
	// parametersSchema leaves out what may have parameters in it.
	parametersSchema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema([]byte(parametersSchemaJSON + defs)) })
)

const sessionSchemaJSON = `{
  "type": "object", "additionalProperties": false, "required": ["name", "timeslot"],
  "properties": {
    "name": {"type": "string", "description": "the name of the session"},
    "timeslot": {
      "type": "object", "additionalProperties": false, "required": ["end"],
      "properties": {
        "provisionAt": {"$ref": "#/$defs/time"}, "start": {"$ref": "#/$defs/time"},
        "end": {"$ref": "#/$defs/time"}, "cleanupDeadline": {"$ref": "#/$defs/time"}
      }
    },
    "template": {"type": "string", "description": "the name of a template"},
    "parameters": {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}},
`

const templateSchemaJSON = `{
  "type": "object", "additionalProperties": false, "required": ["name", "parts"],
  "properties": {
    "name": {"type": "string", "description": "the name of the template"},
    "description": {"type": "string", "description": "text"},
    "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter"}},
`

const parametersSchemaJSON = `{
  "type": "object", "required": ["name"],
  "properties": {
    "name": {"type": "string", "description": "the name of the template"},
    "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter"}}
  },
`

// parts is what sessions and templates have alike.
const parts = `
    "calls": {"type": "array", "items": {"type": "string", "description": "a host that jobs may call, such as lms.example or *.example:8443"}},
    "onFailure": {"$ref": "#/$defs/action"},
    "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}}
  },
`

const defs = `
  "$defs": {
    "time": {"type": "string", "description": "a time such as 2026-03-01T09:00:00Z, or such as in 90m"},
    "span": {"type": "string", "description": "a span of time such as 90m or 7d"},
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
        "moves": {"type": "boolean", "description": "true or false"},
        "duplicates": {"enum": ["allowed"]},
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
        "antiAffinity": {"$ref": "#/$defs/names"},
        "secrets": {"$ref": "#/$defs/names"},
        "volumes": {"type": "array", "items": {
          "type": "object", "additionalProperties": false, "required": ["name", "keep"],
          "properties": {"name": {"$ref": "#/$defs/name"}, "keep": {"$ref": "#/$defs/span"}}
        }}
      }
    },
    "parameter": {
      "type": "object", "additionalProperties": false, "required": ["name", "type"],
      "properties": {
        "name": {"$ref": "#/$defs/name"}, "type": {"enum": ["string", "integer", "number", "boolean", "duration"]},
        "description": {"type": "string", "description": "text"},
        "default": {"$ref": "#/$defs/value"}, "choices": {"type": "array", "items": {"$ref": "#/$defs/value"}},
        "min": {"type": "number", "description": "a number"}, "max": {"type": "number", "description": "a number"},
        "pattern": {"type": "string", "description": "a regular expression"}
      }
    },
    "value": {"type": ["string", "number", "boolean"], "description": "text, a number, true or false"},
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
        "command": {
          "type": "object", "additionalProperties": false, "required": ["pod", "service", "run"],
          "properties": {
            "pod": {"$ref": "#/$defs/name"}, "service": {"$ref": "#/$defs/name"},
            "run": {"type": "array", "minItems": 1, "items": {"type": "string", "description": "text"}, "description": "a program and its arguments, each a text of its own"}
          }
        },
        "await": {"type": "string", "description": "the type of an event"},
        "timeout": {"$ref": "#/$defs/span"},
        "retries": {"type": "integer", "minimum": 0, "description": "a number of attempts after the first, whether a job failed or its event did not come; without it, 4 for a job that fails (steady server --session-attempts) and none for an event"}
      }
    }
  }
}`
