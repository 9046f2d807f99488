package trust

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// FuzzParseEnvelope: whatever is accepted, signed again from its parts, has the
// same parts.
func FuzzParseEnvelope(f *testing.F) {
	r := newRelease(f, newKeys(f, "1"), 1, 1)
	f.Add(r.timestamp)
	f.Add(r.manifest)
	f.Add([]byte(`{"payload":"e30=","payloadType":"x","signatures":[{"keyid":"","sig":""}],"x":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEnvelope(raw)
		if err != nil {
			if CodeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if len(e.Signatures) == 0 || len(e.Signatures) > MaxSignatures || len(e.Payload) > len(raw) {
			t.Fatalf("accepted %+v", e)
		}
		if len(e.Signatures) == MaxSignatures {
			return
		}
		more, err := seal(e, []Signer{signer(t, "fuzz")})
		if err != nil {
			t.Fatalf("sign again: %v", err)
		}
		again, err := ParseEnvelope(more)
		if err != nil || !bytes.Equal(again.Payload, e.Payload) || again.PayloadType != e.PayloadType {
			t.Fatalf("%v: %+v became %+v", err, e, again)
		}
	})
}

// FuzzDecode: what Decode accepts has one meaning: its canonical form is read
// as the same value.
func FuzzDecode(f *testing.F) {
	r := newRelease(f, newKeys(f, "1"), 1, 1)
	f.Add([]byte(canonical(f, r.manifestDoc)))
	f.Add([]byte(canonical(f, r.resolvedDoc)))
	f.Add([]byte(`{"critical":["x"],"X":[{"a":"\u0000\ud800"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m fleet.Manifest
		if err := Decode(raw, MaxEnvelope, &m); err != nil {
			if CodeOf(err) != Malformed {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		out, err := Canonical(m)
		if err != nil {
			t.Fatalf("accepted and cannot be written: %v", err)
		}
		var again fleet.Manifest
		if err := Decode(out, 16*MaxEnvelope, &again); err != nil {
			t.Fatalf("its canonical form is refused: %v\n%s", err, out)
		}
	})
}

func FuzzReadBundle(f *testing.F) {
	f.Add(newRelease(f, newKeys(f, "1"), 1, 1).bundle)
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ReadBundle(raw)
		if err != nil {
			return
		}
		for _, file := range b.Files {
			if CheckPath(file.Path) != nil || file.Size < 0 || file.Mode > 0o777 {
				t.Fatalf("accepted %+v", file)
			}
		}
	})
}
