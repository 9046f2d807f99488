package janus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/drivers/base"
)

// Error codes of the core and of the plugin.
const (
	noSession    = 458
	noHandle     = 459
	noMountpoint = 455
	cannotCreate = 456
)

const plugin = "janus.plugin.streaming"

// apiError is an error that Janus answers with.
type apiError struct {
	code   int
	reason string
}

func (e *apiError) Error() string { return fmt.Sprintf("janus: %s (%d)", e.reason, e.code) }

func hasCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.code == code
}

// client speaks Janus' HTTP API. Janus forgets a session that is idle for a minute: then
// another one is opened.
type client struct {
	http   *base.HTTP
	secret func() string // of the API; empty if Janus wants none
	// lost is called when Janus has forgotten the session, as it does when it starts.
	lost func()

	mu     sync.Mutex
	handle []string // path of the session and of its handle, empty if there is none
}

func newClient(url string, secret func() string, lost func()) (*client, error) {
	http, err := base.NewHTTP(base.Options{URL: url})
	return &client{http: http, secret: secret, lost: lost}, err
}

// request sends a request to the streaming plugin, and returns the plugin's answer.
func (c *client) request(ctx context.Context, body map[string]any) (map[string]any, error) {
	for attempt := 0; ; attempt++ {
		path, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := c.post(ctx, path, map[string]any{"janus": "message", "body": body})
		if (hasCode(err, noSession) || hasCode(err, noHandle)) && attempt == 0 {
			c.forget(path)
			continue // nothing was done
		}
		if err != nil {
			return nil, err
		}
		data := member(member(answer, "plugindata"), "data")
		if code := integer(data["error_code"]); code != 0 {
			return nil, &apiError{code, fmt.Sprint(data["error"])}
		}
		if data["streaming"] == nil {
			return nil, errors.New("janus answered with something else than its streaming plugin does")
		}
		return data, nil
	}
}

// open returns the path of a handle of the plugin.
func (c *client) open(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle != nil {
		return c.handle, nil
	}
	var path []string
	for _, m := range []map[string]any{{"janus": "create"}, {"janus": "attach", "plugin": plugin}} {
		answer, err := c.post(ctx, path, m)
		if err != nil {
			return nil, err
		}
		path = append(path, fmt.Sprint(member(answer, "data")["id"]))
	}
	c.handle = path
	return path, nil
}

func (c *client) forget(path []string) {
	c.mu.Lock()
	if slices.Equal(c.handle, path) {
		c.handle = nil
	}
	c.mu.Unlock()
	c.lost()
}

func (c *client) post(ctx context.Context, path []string, m map[string]any) (map[string]any, error) {
	m["transaction"] = "steady"
	if s := c.secret(); s != "" {
		m["apisecret"] = s
	}
	var answer map[string]any
	if err := c.http.Do(ctx, http.MethodPost, path, m, &answer); err != nil {
		return nil, fmt.Errorf("janus: %w", err)
	}
	if answer["janus"] == "error" {
		e := member(answer, "error")
		return nil, &apiError{integer(e["code"]), fmt.Sprint(e["reason"])}
	}
	return answer, nil
}

func member(m map[string]any, name string) map[string]any {
	out, _ := m[name].(map[string]any)
	return out
}

func integer(v any) int {
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return int(i)
}
