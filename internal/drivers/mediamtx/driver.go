// Package mediamtx drives the paths of MediaMTX over its control API, version 3. It was
// written against the published description of that API.
package mediamtx

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Options of Open, each with what it is for.
var Options = [][2]string{
	{"url", "of the control API, as http://127.0.0.1:9997"},
	{"user", "with the permission api, if one is needed"},
	{"password-file", "file with the user's password"},
	{"commands", "allow: operators may set the commands that MediaMTX runs (runOn…)"},
}

//go:embed fields.txt
var fieldsText string

// fields are the types of the fields of a path, as the API description has them.
var fields = func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(fieldsText) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "#") && len(f) > 1 {
			out[f[0]] = f[1]
		}
	}
	return out
}()

// hidden are fields that MediaMTX does not report as they are.
var hidden = []string{"publishPass", "readPass"}

const (
	fieldName = "name"
	pageSize  = 1000
	maxPages  = 100
)

// Driver is a nodesdk.Driver.
type Driver struct {
	api      *base.HTTP
	commands bool
}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	api, err := base.NewHTTP(base.Options{URL: options["url"], User: options["user"], PasswordFile: options["password-file"]})
	if err != nil {
		return nil, nil, err
	}
	if c := options["commands"]; c != "" && c != "allow" {
		return nil, nil, errors.New("commands: expected allow, or nothing")
	}
	return &Driver{api: api, commands: options["commands"] == "allow"}, []nodesdk.Collection{{
		Kind:    nodeconfig.Flow,
		Secrets: append([]string{"srtPublishPassphrase", "srtReadPassphrase", "whepBearerToken", "forward/*/whipBearerToken"}, hidden...),
	}}, nil
}

// at is the address of a path's operation. The slashes of a name are those of the address.
func at(operation, name string) []string {
	return append([]string{"v3", "config", "paths", operation}, strings.Split(name, "/")...)
}

// list reads all paths, without the values that are those of the default path.
func (d *Driver) list(ctx context.Context) (map[string]map[string]any, error) {
	var defaults map[string]any
	if err := d.api.Get(ctx, []string{"v3", "config", "pathdefaults", "get"}, nil, &defaults); err != nil {
		return nil, err
	}
	out := map[string]map[string]any{}
	for page := range maxPages {
		var list struct {
			ItemCount *int             `json:"itemCount"`
			PageCount int              `json:"pageCount"`
			Items     []map[string]any `json:"items"`
		}
		query := url.Values{"page": {strconv.Itoa(page)}, "itemsPerPage": {strconv.Itoa(pageSize)}}
		if err := d.api.Get(ctx, []string{"v3", "config", "paths", "list"}, query, &list); err != nil {
			return nil, err
		}
		if list.ItemCount == nil {
			return nil, errors.New("the answer is no list of paths: this is no control API of version 3")
		}
		for _, p := range list.Items {
			name, is := p[fieldName].(string)
			if !is || name == "" || out[name] != nil {
				return nil, fmt.Errorf("a path is listed without a name, or twice: %.80q", name)
			}
			out[name] = without(p, defaults)
		}
		if page+1 >= list.PageCount {
			if len(out) != *list.ItemCount {
				return nil, fmt.Errorf("%d of %d paths were listed: they changed meanwhile", len(out), *list.ItemCount)
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("there are more than %d paths", maxPages*pageSize)
}

// without is a path without its name and what is as in the defaults.
func without(p, defaults map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range p { // order-free: each by itself
		if d, there := defaults[name]; name != fieldName && v != nil && !(there && reflect.DeepEqual(d, v)) {
			out[name] = v
		}
	}
	return out
}

func item(name string, config map[string]any) (*nodesdk.Item, error) {
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode path %s: %w", name, err)
	}
	return &nodesdk.Item{Kind: nodeconfig.Flow, ID: name, Config: raw}, nil
}

// Snapshot implements nodesdk.Driver.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	all, err := d.list(ctx)
	if err != nil {
		return nodesdk.State{}, err
	}
	s := nodesdk.State{Complete: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		it, err := item(name, all[name])
		if err != nil {
			return nodesdk.State{}, err
		}
		s.Items = append(s.Items, *it)
	}
	return s, nil
}

// Normalize implements nodesdk.Driver: a path's name is no part of its config.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	it = nodesdk.Fold{Nulls: true, Numbers: true}.Item(it) // a field that is null is left to MediaMTX
	m, err := base.Object(it.Config)
	if err != nil {
		return it
	}
	if m[fieldName] == it.ID {
		delete(m, fieldName)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return it
	}
	it.Config = raw
	return it
}

// Redact implements nodesdk.Redactor: an address may have a password.
func (d *Driver) Redact(it nodesdk.Item, digest func(string) string) nodesdk.Item {
	rules := &nodeconfig.Rules{}
	out, err := rules.Replace(it.Config, func(_ []string, v any) (any, error) {
		if s, is := v.(string); is && hasPassword(s) {
			return digest(s), nil
		}
		return v, nil
	})
	if err == nil {
		it.Config = out
	}
	return it
}

// hasPassword reports whether a text is an address with one, as it stands before the host or
// in a query.
func hasPassword(s string) bool {
	scheme, rest, is := strings.Cut(s, "://")
	if !is || strings.ContainsAny(scheme, " /") {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	if user, _, is := strings.Cut(authority, "@"); is && strings.Contains(user, ":") {
		return true
	}
	query := strings.ToLower(rest)
	return slices.ContainsFunc([]string{"pass", "token", "secret", "key="}, func(w string) bool {
		_, after, is := strings.Cut(query, "?")
		return is && strings.Contains(after, w)
	})
}

// check refuses what MediaMTX would not have, or would have in another way.
func (d *Driver) check(config, now map[string]any) error {
	var problems []nodesdk.Problem
	for _, name := range slices.Sorted(maps.Keys(config)) {
		v, text := config[name], ""
		switch kind := fields[name]; {
		case slices.Contains(hidden, name):
			text = "MediaMTX does not report it as it is: use its authInternalUsers"
		case strings.HasPrefix(name, "runOn") && !d.commands && !reflect.DeepEqual(v, now[name]) && (fields[name] == "string" && v != "" || kind == ""):
			text = "MediaMTX would run a command: the node's option commands=allow permits it"
		case kind != "" && !isOf(kind, v):
			text = "expected a value of type " + kind
		}
		if text != "" {
			problems = append(problems, nodesdk.Problem{Field: name, Message: text})
		}
	}
	if len(problems) > 0 {
		return &nodesdk.InvalidError{Code: "invalid", Problems: problems}
	}
	return nil
}

func isOf(kind string, v any) (is bool) {
	switch kind {
	case "string":
		_, is = v.(string)
	case "boolean":
		_, is = v.(bool)
	case "array":
		_, is = v.([]any)
	case "integer", "number":
		n, isNumber := v.(json.Number)
		is = isNumber && (kind == "number" || !strings.ContainsAny(string(n), ".e"))
	}
	return is
}

// Apply implements nodesdk.Driver. MediaMTX compares nothing: what somebody changes between
// the driver's own comparison and its request, some milliseconds, is not seen.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	all, err := d.list(ctx)
	if err != nil {
		return err
	}
	have, there := all[op.ID]
	var now *nodesdk.Item
	if there {
		if now, err = item(op.ID, have); err != nil {
			return err
		}
	}
	if moved, err := base.Moved(d, now, op.Was); err != nil {
		return err
	} else if moved {
		return nodesdk.ErrConflict
	}
	if op.Delete {
		err := d.api.Do(ctx, http.MethodDelete, at("delete", op.ID), nil, nil)
		if !there || base.Status(err) == http.StatusNotFound {
			return nil
		}
		return err
	}
	to, err := base.Object(d.Normalize(nodesdk.Item{ID: op.ID, Config: op.Config}).Config)
	if err != nil {
		return err
	}
	if _, named := to[fieldName]; named {
		return base.Invalid(fieldName, "it is not the object's name")
	}
	if err := d.check(to, have); err != nil {
		return err
	}
	for _, name := range hidden {
		if v := have[name]; v != nil && v != "" {
			return fmt.Errorf("path %s has a %s, which MediaMTX hides and an edit would lose: move it to authInternalUsers", op.ID, name)
		}
	}
	operation := "replace"
	if !there {
		operation = "add"
	}
	err = d.api.Do(ctx, http.MethodPost, at(operation, op.ID), to, nil)
	switch {
	case base.Status(err) == http.StatusBadRequest && !there && strings.Contains(err.Error(), "already exists"),
		base.Status(err) == http.StatusNotFound && there:
		return nodesdk.ErrConflict
	case base.Status(err) == http.StatusBadRequest:
		return base.Invalid("", "%s", message(err))
	}
	return err
}

// message is the reason of a refusal.
func message(err error) string {
	var s *base.StatusError
	var body struct {
		Error string `json:"error"`
	}
	if errors.As(err, &s) && json.Unmarshal([]byte(s.Body), &body) == nil && body.Error != "" {
		return body.Error
	}
	return err.Error()
}

// Probe implements nodesdk.Prober: a stream arrives.
func (d *Driver) Probe(ctx context.Context, it nodesdk.Item) (effect, detail string, err error) {
	var p struct {
		Available, Ready bool
	}
	err = d.api.Get(ctx, append([]string{"v3", "paths", "get"}, strings.Split(it.ID, "/")...), nil, &p)
	if base.Status(err) == http.StatusNotFound {
		return nodesdk.NotInEffect, "nobody publishes or reads it", nil
	}
	if err != nil {
		return "", "", err
	}
	if p.Available || p.Ready {
		return nodesdk.InEffect, "", nil
	}
	return nodesdk.NotInEffect, "no stream arrives", nil
}
