package event

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Blobs returns the documents that an event names, sorted: they are kept as long as the
// event is. What hosts run is not among them.
func Blobs(e Event) []digest.Digest {
	var out []digest.Digest
	switch e := e.(type) {
	case RootTrusted:
		out = append(out, e.Root)
	case ReleaseAccepted:
		out = slices.AppendSeq(out, maps.Values(e.Envelopes)) // order-free: sorted below
	case TimestampAccepted:
		out = append(out, e.Envelope)
	case HostEnrolled:
		out = append(out, e.TokenDoc, e.Certificate)
	case NodeRegistered:
		out = append(out, e.TokenDoc)
	case HostForked:
		out = append(out, e.Record)
	case OverrideAccepted:
		out = append(out, e.Envelope)
	case LogCheckpoint:
		out = append(out, e.State, e.Audit)
	}
	out = slices.DeleteFunc(out, func(d digest.Digest) bool { return d == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
