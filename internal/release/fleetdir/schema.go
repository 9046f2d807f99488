package fleetdir

import (
	_ "embed"
	"sync"

	"github.com/steadyfleet/steady/internal/strictdoc"
)

//go:embed fleet.schema.json
var fleetSchemaJSON []byte

//go:embed bundle.schema.json
var bundleSchemaJSON []byte

// Most commands read no document: schemas are compiled when the first one is read.
var (
	fleetSchema  = sync.OnceValue(func() *strictdoc.Schema { return strictdoc.MustSchema(fleetSchemaJSON) })
	bundleSchema = sync.OnceValue(func() *strictdoc.Schema { return strictdoc.MustSchema(bundleSchemaJSON) })
)
