package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Decoding errors; a server answers 413 to the first and 400 to the others.
var (
	ErrTooLarge  = errors.New("the body is larger than this route accepts")
	ErrTooDeep   = fmt.Errorf("the body nests deeper than %d levels", MaxDepth)
	ErrDuplicate = errors.New("the body repeats a key")
)

// Read reads at most max bytes and refuses more.
func Read(r io.Reader, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, ErrTooLarge
	}
	return b, nil
}

// Decode reads one JSON value into v after Check. Unknown fields are ignored,
// so that a newer peer may say more.
func Decode(b []byte, v any) error {
	if err := Check(b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// Check refuses what two JSON parsers could read differently or what would cost
// more than its size: invalid UTF-8, duplicate keys (also by case), nesting
// beyond MaxDepth, and anything after the first value.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("the body is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its first JSON value")
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	tok, err := d.Token()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	switch tok {
	case json.Delim('{'):
		return checkObject(d, depth)
	case json.Delim('['):
		for d.More() {
			if err := checkValue(d, depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	return nil
}

// fold maps keys that encoding/json takes for one field to one string: it
// matches field names without regard to case, by the simple folds of Unicode,
// so that K and the Kelvin sign are one letter although they differ in length.
func fold(key string) string {
	if !strings.ContainsFunc(key, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }) {
		return key
	}
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		if 'A' <= least && least <= 'Z' {
			least += 'a' - 'A'
		}
		return least
	}, key)
}

func checkObject(d *json.Decoder, depth int) error {
	var few [8]string
	seen := few[:0]
	var many map[string]struct{} // once a scan would cost more
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		key := tok.(string)
		folded := fold(key)
		_, dup := many[folded]
		if dup || slices.Contains(seen, folded) {
			return fmt.Errorf("%w: %q", ErrDuplicate, key)
		}
		if many != nil {
			many[folded] = struct{}{}
		} else if seen = append(seen, folded); len(seen) > 32 {
			many = make(map[string]struct{}, 2*len(seen))
			for _, k := range seen {
				many[k] = struct{}{}
			}
			seen = nil
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}
