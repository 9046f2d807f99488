package event

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// encode returns the JSON of an event. Each is encoded before it is committed, and
// reflection costs more than the rest of most decisions: the types that logs are full
// of write themselves, byte for byte what encoding/json writes.
func encode(e Event) ([]byte, error) {
	var room [512]byte
	w := writer{b: append(room[:0], '{')}
	switch e := e.(type) {
	case HostStepped:
		w = w.text("rollout", e.Rollout).text("manifest", string(e.Manifest)).text("input", e.Input).raw("data", e.Data)
		w = w.text("from", string(e.From)).text("to", string(e.To)).some("cause", string(e.Cause)).some("detail", e.Detail)
		if e.Unconfirmed {
			w = w.raw("unconfirmed", []byte("true"))
		}
	case HostHead:
		w = w.counter("incarnation", e.Incarnation).counter("seq", e.Seq).binary("hash", e.Hash).binary("signature", e.Signature)
	case HostReturned:
	case HostSilent:
		w = w.integer("lastSeen", int64(e.LastSeen))
	case Granted:
		w = w.text("grant", e.Grant).text("rollout", e.Rollout).integer("wave", int64(e.Wave)).text("target", string(e.Target))
		w = w.some("manifest", string(e.Manifest)).text("purpose", string(e.Purpose)).integer("expires", int64(e.Expires))
		w = w.text("reason", e.Reason).texts("budgets", e.Budgets)
	case GrantClaimed:
		w = w.text("grant", e.Grant).text("rollout", e.Rollout)
	case GrantEnded:
		w = w.text("grant", e.Grant).text("rollout", e.Rollout).text("reason", e.Reason)
		if e.NotBefore != 0 {
			w = w.integer("notBefore", int64(e.NotBefore))
		}
	case WaveBlocked:
		if len(e.Waits) > 0 {
			return json.Marshal(e)
		}
		w = w.text("rollout", e.Rollout).some("manifest", string(e.Manifest)).integer("wave", int64(e.Wave)).some("waveName", e.WaveName)
		w = w.text("code", e.Code).text("reason", e.Reason)
	default:
		return json.Marshal(e)
	}
	if w.refused {
		return json.Marshal(e)
	}
	return bytes.Clone(append(w.b, '}')), nil
}

// writer writes the members of an object one after the other. It refuses a text that is
// more than plain ASCII, which is left to encoding/json.
type writer struct {
	b       []byte
	refused bool
}

func (w writer) key(name string) writer {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
	return w
}

func (w writer) text(name, v string) writer { return w.key(name).quote(v) }

// some is text that is left out when it is empty.
func (w writer) some(name, v string) writer {
	if v == "" {
		return w
	}
	return w.text(name, v)
}

func (w writer) integer(name string, v int64) writer {
	w = w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
	return w
}

func (w writer) counter(name string, v uint64) writer {
	w = w.key(name)
	w.b = strconv.AppendUint(w.b, v, 10)
	return w
}

func (w writer) binary(name string, v []byte) writer {
	if w = w.key(name); v == nil {
		w.b = append(w.b, "null"...)
		return w
	}
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), v), '"')
	return w
}

func (w writer) texts(name string, v map[string]string) writer {
	if w = w.key(name); v == nil {
		w.b = append(w.b, "null"...)
		return w
	}
	w.b = append(w.b, '{')
	for i, k := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w = w.quote(k)
		w.b = append(w.b, ':')
		w = w.quote(v[k])
	}
	w.b = append(w.b, '}')
	return w
}

// raw takes JSON as it is where encoding/json would: compact, and nothing of it escaped.
func (w writer) raw(name string, v json.RawMessage) writer {
	quoted := false
	for _, c := range v {
		if c == '"' {
			quoted = !quoted
		} else if !plain(c) || c == ' ' && !quoted {
			w.refused = true
			return w
		}
	}
	w.refused = w.refused || !json.Valid(v)
	w = w.key(name)
	w.b = append(w.b, v...)
	return w
}

func (w writer) quote(v string) writer {
	for i := range len(v) {
		if !plain(v[i]) {
			w.refused = true
			return w
		}
	}
	w.b = append(append(append(w.b, '"'), v...), '"')
	return w
}

// plain reports whether encoding/json writes a byte of a text as it is.
func plain(c byte) bool {
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}
