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
	if !json.Valid(b) {
		return fmt.Errorf("the body is not one JSON value: %w", json.Unmarshal(b, new(json.RawMessage)))
	}
	var w walk
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if w.open = append(w.open, level{object: b[i] == '{', from: len(w.keys)}); len(w.open) > MaxDepth {
				return ErrTooDeep
			}
			w.key = b[i] == '{'
		case '}', ']':
			last := len(w.open) - 1
			w.keys, w.open, w.key = w.keys[:w.open[last].from], w.open[:last], false
		case ',':
			w.key = w.open[len(w.open)-1].object
		case '"':
			end := i + 1
			for ; b[end] != '"'; end++ {
				if b[end] == '\\' {
					end++
				}
			}
			if w.key && !w.add(b[i:end+1]) {
				return fmt.Errorf("%w: %s", ErrDuplicate, b[i:end+1])
			}
			w.key, i = false, end
		}
	}
	return nil
}

// walk is a place in a text that is one JSON value.
type walk struct {
	open []level
	keys [][]byte // folded, of the open objects
	key  bool     // the next string is one
}

// level is an array or object around a place; its keys begin at from. Many has them
// once a scan would cost more.
type level struct {
	object bool
	from   int
	many   map[string]bool
}

// add takes a quoted key of the innermost object, and reports whether it is the first of
// its name.
func (w *walk) add(quoted []byte) bool {
	folded := quoted[1 : len(quoted)-1]
	if bytes.ContainsFunc(folded, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' || r == '\\' }) {
		var key string
		_ = json.Unmarshal(quoted, &key) // the text is valid
		folded = []byte(fold(key))
	}
	l := &w.open[len(w.open)-1]
	if l.many == nil {
		if slices.ContainsFunc(w.keys[l.from:], func(k []byte) bool { return bytes.Equal(k, folded) }) {
			return false
		}
		if w.keys = append(w.keys, folded); len(w.keys)-l.from <= 32 {
			return true
		}
		l.many = make(map[string]bool, 64)
		for _, k := range w.keys[l.from:] {
			l.many[string(k)] = true
		}
		return true
	}
	dup := l.many[string(folded)]
	l.many[string(folded)] = true
	return !dup
}

// fold maps keys that encoding/json takes for one field to one string: it
// matches field names without regard to case, by the simple folds of Unicode,
// so that K and the Kelvin sign are one letter although they differ in length.
func fold(key string) string {
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
