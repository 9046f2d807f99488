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
	b := append(room[:0], '{')
	switch e := e.(type) {
	case HostStepped:
		b = e.write(b)
	case HostHead:
		b = e.write(b)
	case HostReturned:
	case HostSilent:
		b = integer(b, "lastSeen", int64(e.LastSeen))
	case Granted:
		b = e.write(b)
	case GrantClaimed:
		b = text(b, "grant", e.Grant)
	case GrantEnded:
		b = e.write(b)
	case WaveHeld:
		b = e.write(b)
	default:
		b = nil
	}
	if b == nil {
		return json.Marshal(e)
	}
	return bytes.Clone(append(b, '}')), nil
}

// What follows writes the members of an object one after the other. Bytes are nil from
// a text on that is more than plain ASCII, which is left to encoding/json.

func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

func text(b []byte, name, v string) []byte {
	if b == nil {
		return nil
	}
	return quote(key(b, name), v)
}

// some is text that is left out when it is empty.
func some(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return text(b, name, v)
}

func integer(b []byte, name string, v int64) []byte {
	if b == nil {
		return nil
	}
	return strconv.AppendInt(key(b, name), v, 10)
}

func counter(b []byte, name string, v uint64) []byte {
	if b == nil {
		return nil
	}
	return strconv.AppendUint(key(b, name), v, 10)
}

func binary(b []byte, name string, v []byte) []byte {
	switch {
	case b == nil:
		return nil
	case v == nil:
		return append(key(b, name), "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(key(b, name), '"'), v), '"')
}

func texts(b []byte, name string, v map[string]string) []byte {
	switch {
	case b == nil:
		return nil
	case v == nil:
		return append(key(b, name), "null"...)
	}
	b = append(key(b, name), '{')
	for i, k := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b = append(b, ',')
		}
		if b = quote(b, k); b != nil {
			b = quote(append(b, ':'), v[k])
		}
		if b == nil {
			return nil
		}
	}
	return append(b, '}')
}

// raw takes JSON as it is where encoding/json would: compact, and nothing of it escaped.
func raw(b []byte, name string, v json.RawMessage) []byte {
	quoted := false
	for _, c := range v {
		if c == '"' {
			quoted = !quoted
		} else if !plain(c) || c == ' ' && !quoted {
			return nil
		}
	}
	if b == nil || !json.Valid(v) {
		return nil
	}
	return append(key(b, name), v...)
}

func quote(b []byte, v string) []byte {
	for i := range len(v) {
		if !plain(v[i]) {
			return nil
		}
	}
	return append(append(append(b, '"'), v...), '"')
}

// plain reports whether encoding/json writes a byte of a text as it is.
func plain(c byte) bool {
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func (e *HostStepped) write(b []byte) []byte {
	b = text(b, "rollout", e.Rollout)
	b = text(b, "manifest", string(e.Manifest))
	b = text(b, "input", e.Input)
	b = raw(b, "data", e.Data)
	b = text(b, "from", string(e.From))
	b = text(b, "to", string(e.To))
	b = some(b, "cause", string(e.Cause))
	b = some(b, "detail", e.Detail)
	return b
}

func (e *HostHead) write(b []byte) []byte {
	b = counter(b, "incarnation", e.Incarnation)
	b = counter(b, "seq", e.Seq)
	b = binary(b, "hash", e.Hash)
	b = binary(b, "signature", e.Signature)
	return b
}

func (e *Granted) write(b []byte) []byte {
	b = text(b, "grant", e.Grant)
	b = text(b, "rollout", e.Rollout)
	b = integer(b, "wave", int64(e.Wave))
	b = text(b, "target", string(e.Target))
	b = some(b, "manifest", string(e.Manifest))
	b = text(b, "purpose", string(e.Purpose))
	b = integer(b, "expires", int64(e.Expires))
	b = text(b, "reason", e.Reason)
	b = texts(b, "budgets", e.Budgets)
	return b
}

func (e *GrantEnded) write(b []byte) []byte {
	b = text(b, "grant", e.Grant)
	b = text(b, "reason", e.Reason)
	if e.NotBefore != 0 {
		b = integer(b, "notBefore", int64(e.NotBefore))
	}
	return b
}

func (e *WaveHeld) write(b []byte) []byte {
	b = text(b, "rollout", e.Rollout)
	b = some(b, "manifest", string(e.Manifest))
	b = integer(b, "wave", int64(e.Wave))
	b = text(b, "code", e.Code)
	b = text(b, "reason", e.Reason)
	return b
}
