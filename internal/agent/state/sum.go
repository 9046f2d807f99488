package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// A document with a checksum ends with the field sumField, over all before it.
const (
	sumField = `,"sum":"`
	sumSize  = len(sumField) + 2*sha256.Size + len(`"}`)
)

var errSum = errors.New("its checksum does not fit: the disk damaged it; stop the agent, move the state folder away, and enrol the host again with a new token")

func withSum(object []byte) []byte {
	sum := sha256.Sum256(object)
	out := append(bytes.TrimSuffix(object, []byte("}")), sumField...)
	return append(hex.AppendEncode(out, sum[:]), `"}`...)
}

// withoutSum checks what withSum made; what has no checksum passes.
func withoutSum(raw []byte) ([]byte, error) {
	at := len(raw) - sumSize
	if at < 0 || !bytes.HasPrefix(raw[at:], []byte(sumField)) {
		return raw, nil
	}
	object := append(bytes.Clone(raw[:at]), '}')
	if sum := sha256.Sum256(object); hex.EncodeToString(sum[:]) != string(raw[at+len(sumField):len(raw)-2]) {
		return nil, errSum
	}
	return object, nil
}
