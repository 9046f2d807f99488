package trust

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gowebpki/jcs"
)

// Canonical encodes v as RFC 8785 JSON, the bytes that get signed or named by
// a digest. It refuses fractions and integers beyond MaxInteger, which other
// readers may round, and nesting beyond MaxDepth.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	w := walker{b: raw}
	if err := w.value(reflect.TypeOf(v), 0); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	out, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return out, nil
}
