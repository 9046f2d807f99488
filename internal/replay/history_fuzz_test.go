package replay

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// FuzzRead: a history that is taken has no gap, names its content by digest,
// and did not end before its end.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":"` + HistoryFormat + `"}` + "\n" + `{"end":0}` + "\n"))
	f.Add([]byte(`{"format":"` + HistoryFormat + `"}` + "\n" + `{"event":{"seq":1,"type":"x","body":{}}}` + "\n" + `{"end":1}` + "\n"))
	f.Add([]byte(`{"format":"` + HistoryFormat + `"}` + "\n" + `{"event":{"seq":2}}` + "\n"))
	f.Add([]byte(`{"format":"` + HistoryFormat + `"}` + "\n" + `{"blob":"AAAA"}` + "\n" + `{"end":0}`))
	f.Add([]byte(`{"format":"` + HistoryFormat + `"}` + "\n" + `{"manifest":{"digest":""}}` + "\n" + `{"end":0}`))
	f.Add([]byte(`{"format":"other"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := ReadHistory(bytes.NewReader(raw), nil)
		if err != nil {
			return
		}
		for i, r := range h.Records {
			if r.Seq != uint64(i)+1 {
				t.Fatalf("record %d has number %d", i, r.Seq)
			}
		}
		for d, m := range h.Manifests {
			if m.Header == nil || m.Digest != d {
				t.Fatalf("manifest %s is %+v", d, m)
			}
		}
		for d, b := range h.Blobs {
			if digest.Of(b) != d {
				t.Fatalf("content %s is named %s", digest.Of(b), d)
			}
		}
		if cut, err := ReadHistory(bytes.NewReader(raw[:len(raw)/2]), nil); err == nil && len(cut.Records) > len(h.Records) {
			t.Fatalf("half a history has %d events, the whole %d", len(cut.Records), len(h.Records))
		}
	})
}
