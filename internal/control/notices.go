package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
)

// logNotices logs those of the committed entries that the rows of their types say, each
// about a host with its name.
func (c *Control) logNotices(entries []event.Entry) {
	ctx := context.Background()
	for i := range entries {
		e := &entries[i]
		n := event.NoticeOf(e.Type)
		if n == nil || !c.cfg.Log.Enabled(ctx, slog.Level(n.Level)) {
			continue
		}
		var attrs []any
		if host := e.Host(); host != "" {
			attrs = append(attrs, "host", host)
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(e.Body, &body); err != nil {
			c.cfg.Log.Error("an event cannot be logged", "type", e.Type, "err", err)
			continue
		}
		for key := range strings.FieldsSeq(n.Keys) {
			if v := shown(body[key]); v != "" { // no actor: the planner's own
				attrs = append(attrs, key, v)
			}
		}
		c.cfg.Log.Log(ctx, slog.Level(n.Level), n.Message, attrs...)
	}
}

// shown is a member of a body as a line shows it: a text as it is, all else as JSON.
func shown(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
