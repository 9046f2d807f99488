package control

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/wire"
)

// FuzzReadBatch: a batch that is taken off the wire has no gap, keeps every
// bound, and holds nothing that the fold could not read.
func FuzzReadBatch(f *testing.F) {
	const zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	f.Add([]byte(`{"incarnation":1,"events":[{"seq":1,"at":1,"type":"host-stepped","body":{"input":"contact"}}],"head":{"seq":1,"hash":"` + zeros + `"}}`))
	f.Add([]byte(`{"incarnation":1,"events":[{"seq":18446744073709551615,"type":"host-stepped","body":{}},{"seq":0,"type":"host-stepped","body":{}}],"head":{"seq":0,"hash":"` + zeros + `"}}`))
	f.Add([]byte(`{"incarnation":0,"events":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b wire.EventBatch
		if wire.Decode(raw, &b) != nil {
			return
		}
		got, err := readBatch("web-1", &b)
		if err != nil {
			return
		}
		if len(got.Entries) == 0 || len(got.Entries) > wire.MaxEventBatch || got.Incarnation == 0 {
			t.Fatalf("took %+v", got)
		}
		for i, e := range got.Entries {
			if e.Host() != "web-1" || e.HostSeq == 0 || e.HostSeq < got.Entries[0].HostSeq || e.HostSeq != got.Entries[0].HostSeq+uint64(i) || len(e.Body) > wire.MaxEventSize {
				t.Fatalf("entry %d is %+v", i, e)
			}
			if _, err := event.Decode(e); err != nil || !event.FromHost(e.Type) {
				t.Fatalf("entry %d cannot be folded: %v", i, err)
			}
		}
		if last := got.Entries[len(got.Entries)-1]; got.head().Seq != last.HostSeq {
			t.Fatalf("the head is of %d, the last event %d", got.head().Seq, last.HostSeq)
		}
	})
}
