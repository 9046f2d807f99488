package nodesdk

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of a Message. Members that it does not name are
// allowed, and passed over.
func Schema() []byte { return append([]byte(nil), schema...) }
