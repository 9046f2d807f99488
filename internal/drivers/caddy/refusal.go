package caddy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	routeNumbers = regexp.MustCompile(`route (\d+): loading handler modules: position (\d+)`)
	inUse        = regexp.MustCompile(`address already in use|listener address repeated|permission denied`)
)

// refusal is Caddy's reason with the field that it is about, as far as it says.
func refusal(text string, config json.RawMessage) *nodesdk.InvalidError {
	p := nodesdk.Problem{Message: text}
	out := &nodesdk.InvalidError{Code: "invalid"}
	if inUse.MatchString(text) {
		p.Field, out.Code = "listen", "port-in-use"
		if strings.Contains(text, "permission denied") {
			out.Code = "port-forbidden"
		}
	}
	if m := unknownField.FindStringSubmatch(text); m != nil {
		p.Field = m[1]
		if v, err := nodeconfig.Decode(config); err == nil {
			if paths := named(v, nil, m[1]); len(paths) == 1 {
				p.Field = paths[0]
			}
		}
	} else if m := routeNumbers.FindStringSubmatch(text); m != nil && strings.Count(text, "loading handler modules") == 1 {
		p.Field = "routes/" + m[1] + "/handle/" + m[2]
	}
	out.Problems = []nodesdk.Problem{p}
	return out
}

// named lists the paths of members of a name.
func named(v any, at []string, name string) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			here := append(slices.Clip(at), k)
			if k == name {
				out = append(out, nodeconfig.Field(here))
			}
			out = append(out, named(v[k], here, name)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, named(e, append(slices.Clip(at), strconv.Itoa(i)), name)...)
		}
	}
	return out
}

// Validate implements nodesdk.Validator. The admin API of 2.6 has no dry run: Caddy's program
// loads the running configuration with the object in it, and starts nothing. It does not see
// that another program has a port.
func (d *Driver) Validate(ctx context.Context, it nodesdk.Item) ([]nodesdk.Problem, error) {
	if _, err := pathOf(it.ID); err != nil {
		var invalid *nodesdk.InvalidError
		errors.As(err, &invalid)
		return invalid.Problems, nil
	}
	program, err := exec.LookPath(d.o.Command)
	if err != nil {
		return nil, fmt.Errorf("caddy's program, which validates: %w", err)
	}
	whole, _, err := d.api.get(ctx, root)
	if err != nil {
		return nil, err
	}
	candidate, err := with(whole, it)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "validate", "--config", "-")
	cmd.Stdin = strings.NewReader(string(candidate)) // no file has the secrets
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
		return nil, fmt.Errorf("caddy validate: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return refusal(strings.TrimPrefix(lines[len(lines)-1], "Error: "), it.Config).Problems, nil
}

// with is a whole configuration with one server in it.
func with(whole json.RawMessage, it nodesdk.Item) (json.RawMessage, error) {
	var put func(raw json.RawMessage, path []string) (json.RawMessage, error)
	put = func(raw json.RawMessage, path []string) (json.RawMessage, error) {
		if len(path) == 0 {
			return it.Config, nil
		}
		m := map[string]json.RawMessage{}
		if !isNull(raw) {
			if err := json.Unmarshal(raw, &m); err != nil {
				return nil, fmt.Errorf("caddy's configuration: %w", err)
			}
		}
		in, err := put(m[path[0]], path[1:])
		if err != nil {
			return nil, err
		}
		m[path[0]] = in
		return json.Marshal(m)
	}
	return put(whole, append(slices.Clip(place), it.ID))
}
