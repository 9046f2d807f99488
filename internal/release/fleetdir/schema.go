package fleetdir

import (
	_ "embed"
	"sync"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

//go:embed fleet.schema.json
var fleetSchemaJSON []byte

//go:embed bundle.schema.json
var bundleSchemaJSON []byte

// Most commands read no document: schemas are compiled when the first one is read.
var (
	fleetSchema  = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema(fleetSchemaJSON) })
	bundleSchema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema(bundleSchemaJSON) })
)

// SchemaJSON is the JSON Schema of fleet.yaml or bundle.yaml, by the name fleet or
// bundle; nil for any other name.
func SchemaJSON(name string) []byte {
	switch name {
	case "fleet":
		return fleetSchemaJSON
	case "bundle":
		return bundleSchemaJSON
	}
	return nil
}
