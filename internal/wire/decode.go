package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Decoding errors; a server answers 413 to the first and 400 to the others.
var (
	ErrTooLarge  = errors.New("the body is larger than this route takes")
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

func checkObject(d *json.Decoder, depth int) error {
	var seen []string
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		key := tok.(string)
		// encoding/json matches field names without regard to case.
		for _, k := range seen {
			if len(k) == len(key) && bytes.EqualFold([]byte(k), []byte(key)) {
				return fmt.Errorf("%w: %q", ErrDuplicate, key)
			}
		}
		if len(seen) < 64 {
			seen = append(seen, key)
		} else if err := checkWide(d, seen, key, depth); err != nil {
			return err
		} else {
			return nil
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// checkWide goes on with an object of many keys, by map instead of by scan. key
// has been read but not its value.
func checkWide(d *json.Decoder, seen []string, key string, depth int) error {
	fold := func(k string) string { return string(bytes.ToLower([]byte(k))) }
	m := make(map[string]struct{}, 256)
	for _, k := range seen {
		m[fold(k)] = struct{}{}
	}
	for {
		if _, dup := m[fold(key)]; dup {
			return fmt.Errorf("%w: %q", ErrDuplicate, key)
		}
		m[fold(key)] = struct{}{}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
		if !d.More() {
			break
		}
		tok, err := d.Token()
		if err != nil {
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		key = tok.(string)
	}
	_, err := d.Token()
	return err
}
