package nodesdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DecodeMessage reads a frame. It refuses what is no JSON object, nested deeper than
// MaxDepth, has a member twice in one object, or anything after its end. Unknown members
// are passed over.
func DecodeMessage(raw []byte) (Message, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Message{}, errors.New("the message is no JSON object")
	}
	if err := members(d, MaxDepth); err != nil {
		return Message{}, fmt.Errorf("the message cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Message{}, errors.New("the message has something after its end")
	}
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return Message{}, fmt.Errorf("the message cannot be read: %w", withoutValue(err))
	}
	if m.Type == "" {
		return Message{}, errors.New("the message has no type")
	}
	return m, nil
}

// withoutValue keeps the values of a message out of the error.
func withoutValue(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s is of the wrong type", wrong.Field)
	}
	return errors.New("it is malformed")
}

// members reads the rest of an object.
func members(d *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return errors.New("it is malformed")
		}
		name, _ := key.(string)
		if seen[name] {
			return errors.New("a member stands twice")
		}
		seen[name] = true
		if err := decodeAny(d, depth-1); err != nil {
			return err
		}
	}
	return end(d)
}

func decodeAny(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return errors.New("it is malformed")
	}
	if _, container := t.(json.Delim); container && depth <= 0 {
		return errors.New("it is too deep")
	}
	switch t {
	case json.Delim('{'):
		return members(d, depth)
	case json.Delim('['):
		for d.More() {
			if err := decodeAny(d, depth-1); err != nil {
				return err
			}
		}
		return end(d)
	}
	return nil
}

func end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return errors.New("it is malformed")
	}
	return nil
}

// decodeNumbers is json.Unmarshal that keeps numbers as they are written.
func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}
