package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/nodesdk"
)

// secrets: a value never leaves the node, in whatever the node sends and logs; that it
// changed does.
func secrets(r *rig) {
	e := r.h.secret()
	const first, second = "canary-Zq7x/\"&+1", "canary-Zq7x/\"&+2"
	for name, value := range map[string]string{"first": first, "second": second} {
		if err := nodesdk.SetSecret(r.dir, name, value); err != nil {
			r.Fatal(err)
		}
	}
	config := func(name string) json.RawMessage {
		return withMember(r, e.Config, e.Secret, map[string]string{"$secret": name})
	}
	made := r.create(Example{Kind: e.Kind, ID: e.ID, Config: config("first")})
	if at := memberOf(r, made.Config, e.Secret); !strings.HasPrefix(fmt.Sprint(at), "hmac:") {
		r.Errorf("in the place of the secret stands %v", at)
	}
	other := r.expect("another secret", r.apply(r.operation(e.Kind, e.ID, config("second"), made.ETag)), nodesdk.OutcomeApplied)
	if other.Object.ETag == made.ETag {
		r.Error("an object with another secret has the same ETag")
	}
	r.expect("a secret that the node lacks", r.apply(r.operation(e.Kind, e.ID, config("none"), other.Object.ETag)), nodesdk.OutcomeInvalid)
	r.driver.disturb(func(_ context.Context, op nodesdk.Op, _ func() error) error {
		return fmt.Errorf("refused: %s", op.Config)
	}, nil)
	r.expect("an error with the secret in it", r.apply(r.operation(e.Kind, e.ID, config("first"), other.Object.ETag)), nodesdk.OutcomeFailed)
	r.driver.disturb(nil, nil)
	// The digest of a secret stands for it: the first one comes back.
	back := r.expect("the first config as it was reported", r.apply(r.operation(e.Kind, e.ID, made.Config, other.Object.ETag)), nodesdk.OutcomeApplied)
	if back.Object.ETag != made.ETag {
		r.Errorf("the first config as it was reported is %+v, it was %+v", back.Object, made)
	}
	for _, part := range []string{"canary-Zq7x", "Y2FuYXJ5LVpxN3"} { // as it is, and in base64
		for _, f := range r.peer.Frames() {
			if bytes.Contains(f, []byte(part)) {
				r.Errorf("a message has the secret: %.200s", f)
			}
		}
		if strings.Contains(r.log.text(), part) {
			r.Error("the log has the secret")
		}
	}
}

// withMember is a config with a member at a path set. A step into a list is an index.
func withMember(r *rig, config json.RawMessage, path string, to any) json.RawMessage {
	r.Helper()
	var root any
	if err := json.Unmarshal(config, &root); err != nil {
		r.Fatal(err)
	}
	out, err := json.Marshal(put(root, strings.Split(path, "/"), to))
	if err != nil {
		r.Fatal(err)
	}
	return out
}

func put(v any, path []string, to any) any {
	if len(path) == 0 {
		return to
	}
	if list, is := v.([]any); is {
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(list) {
			list[i] = put(list[i], path[1:], to)
			return list
		}
	}
	m, is := v.(map[string]any)
	if !is {
		m = map[string]any{}
	}
	m[path[0]] = put(m[path[0]], path[1:], to)
	return m
}

func memberOf(r *rig, config json.RawMessage, path string) any {
	r.Helper()
	var v any
	if err := json.Unmarshal(config, &v); err != nil {
		r.Fatal(err)
	}
	for step := range strings.SplitSeq(path, "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
