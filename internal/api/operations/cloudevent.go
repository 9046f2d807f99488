package operations

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// maxEvent bounds a request: the data, which may be encoded, and its attributes.
const maxEvent = 2 * engine.MaxEventData

// cloudEvent is a CloudEvent 1.0. Its data is kept as JSON: text as a string, and other bytes not at all.
type cloudEvent struct {
	ID, Source, Type, Subject string
	Data                      json.RawMessage // nil: none
}

// What is wrong with a request; see errors.Is.
var (
	errMalformed     = errors.New("it is no CloudEvent")
	errMediaType     = errors.New("its content type is not supported")
	errEventTooLarge = fmt.Errorf("an event has at most %d bytes of data, and %d in each of source, id and type", engine.MaxEventData, engine.MaxEventName)
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

const structuredMode = "application/cloudevents+json"

// readCloudEvent reads the event of a request in binary or structured mode of the HTTP binding.
func readCloudEvent(w http.ResponseWriter, r *http.Request) (e cloudEvent, err error) {
	kind, params, err := mediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return e, err
	}
	if kind != structuredMode && (strings.HasPrefix(kind, "application/cloudevents") || r.Header.Get("Ce-Specversion") == "") {
		return e, fmt.Errorf("%w: expected %s, or the headers ce-specversion, ce-id, ce-source and ce-type", errMediaType, structuredMode)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return e, errEventTooLarge
	}
	if err != nil {
		return e, malformed("the body did not arrive")
	}
	if kind == structuredMode {
		e, err = readStructured(body)
	} else {
		e, err = readBinary(r.Header, kind, params["charset"], body)
	}
	if err != nil {
		return cloudEvent{}, err
	}
	return e, e.bounded()
}

func mediaType(header string) (kind string, params map[string]string, err error) {
	if header == "" {
		return "", nil, nil
	}
	if kind, params, err = mime.ParseMediaType(header); err != nil {
		return "", nil, fmt.Errorf("%w: content type %.80q: %w", errMediaType, header, err)
	}
	return kind, params, nil
}

// bounded refuses what no inbox takes.
func (e *cloudEvent) bounded() error {
	if len(e.Data) > engine.MaxEventData {
		return errEventTooLarge
	}
	for _, s := range []string{e.ID, e.Source, e.Type} {
		if len(s) > engine.MaxEventName {
			return errEventTooLarge
		}
	}
	return nil
}

// check refuses what an event must have and has not.
func (e *cloudEvent) check(version string) error {
	switch {
	case version != "1.0":
		return malformed("specversion is %.20q, expected 1.0", version)
	case e.ID == "" || e.Source == "" || e.Type == "":
		return malformed("it has no id, source or type")
	case strings.ContainsFunc(e.ID+e.Source+e.Type+e.Subject, unicode.IsControl):
		return malformed("its id, source, type or subject has a control character")
	}
	if _, err := url.Parse(e.Source); err != nil {
		return malformed("source %.80q is no URI reference", e.Source)
	}
	return nil
}

func readBinary(h http.Header, kind, charset string, body []byte) (e cloudEvent, err error) {
	version := ""
	for name, into := range map[string]*string{"Ce-Specversion": &version, "Ce-Id": &e.ID, "Ce-Source": &e.Source, "Ce-Type": &e.Type, "Ce-Subject": &e.Subject} { // order-free: each by itself
		values := h.Values(name)
		if len(values) > 1 {
			return e, malformed("header %s is there twice", strings.ToLower(name))
		}
		if len(values) == 1 {
			if *into, err = url.PathUnescape(values[0]); err != nil || !utf8.ValidString(*into) {
				return e, malformed("header %s is not percent-encoded UTF-8", strings.ToLower(name))
			}
		}
	}
	if err := e.check(version); err != nil {
		return e, err
	}
	if e.Data, err = dataOf(kind, charset, body); err != nil {
		return e, err
	}
	return e, nil
}

func readStructured(body []byte) (e cloudEvent, err error) {
	var in struct {
		Version string          `json:"specversion"`
		ID      string          `json:"id"`
		Source  string          `json:"source"`
		Type    string          `json:"type"`
		Subject string          `json:"subject"`
		Kind    string          `json:"datacontenttype"`
		Data    json.RawMessage `json:"data"`
		Base64  *string         `json:"data_base64"`
	}
	if !utf8.Valid(body) {
		return e, malformed("it is not UTF-8")
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return e, malformed("%v", err)
	}
	e = cloudEvent{ID: in.ID, Source: in.Source, Type: in.Type, Subject: in.Subject}
	if err := e.check(in.Version); err != nil {
		return e, err
	}
	if in.Base64 == nil {
		e.Data, err = dataOf("application/json", "", in.Data)
		return e, err
	}
	if in.Data != nil {
		return e, malformed("it has data and data_base64")
	}
	raw, err := base64.StdEncoding.DecodeString(*in.Base64)
	if err != nil {
		return e, malformed("data_base64: %v", err)
	}
	kind, params, err := mediaType(in.Kind)
	if err != nil {
		return e, err
	}
	e.Data, err = dataOf(kind, params["charset"], raw)
	return e, err
}

// dataOf is data of a content type as JSON.
func dataOf(kind, charset string, raw []byte) (json.RawMessage, error) {
	switch isJSON := kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json"); {
	case len(raw) == 0:
		return nil, nil
	case charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii"):
		return nil, fmt.Errorf("%w: charset %.40q, expected utf-8", errMediaType, charset)
	case isJSON && (!utf8.Valid(raw) || !json.Valid(raw)):
		return nil, malformed("its data is no JSON")
	case isJSON:
		var out bytes.Buffer
		err := json.Compact(&out, raw)
		return out.Bytes(), err
	case strings.HasPrefix(kind, "text/") && utf8.Valid(raw):
		return json.Marshal(string(raw))
	}
	return nil, fmt.Errorf("%w: data of type %.80q, expected JSON or text", errMediaType, kind)
}
