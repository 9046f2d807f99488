package janus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/steadyfleet/steady/nodesdk"
)

// Times by which media are judged.
const (
	silent = 5 * time.Second       // after which a stream is taken to have ended
	jitter = 50 * time.Millisecond // by which two answers may differ on one packet
)

// seen is when the last packet of a stream arrived, or the stream was made, and whether
// that moved since it was first seen: the age of a stream that never had a packet begins
// at zero too.
type seen struct {
	last   time.Time
	moving bool
}

// Probe implements nodesdk.Prober: audio and video arrive. Data need not.
func (d *Driver) Probe(ctx context.Context, it nodesdk.Item) (effect, detail string, err error) {
	var config map[string]any
	if err := json.Unmarshal(it.Config, &config); err != nil {
		return "", "", fmt.Errorf("mountpoint %s: %w", it.ID, err)
	}
	if config[running] == false {
		return nodesdk.NotInEffect, whyNot(config), nil
	}
	id, key, made := d.known(it.ID)
	if key == "" {
		return "", "", errors.New("the mountpoint was not read yet")
	}
	answer, err := d.api.request(ctx, map[string]any{"request": "info", "id": id})
	if err != nil {
		return "", "", err
	}
	info := member(answer, "info")
	if info["enabled"] == false {
		return nodesdk.NotInEffect, "it is disabled", nil
	}
	return d.judge(key, made, info)
}

// whyNot is why Janus does not run what its file has, as far as this can be told from here.
func whyNot(entry map[string]any) string {
	if name, is := entry["filename"].(string); is {
		if _, err := os.Stat(name); err != nil {
			return fmt.Sprintf("it is in the file of Janus, which cannot load it: %v", err)
		}
	}
	if kind := fmt.Sprint(entry["type"]); byType[kind] == nil {
		return fmt.Sprintf("it is in the file of Janus, which cannot load it: it knows no mountpoint of type %s", kind)
	}
	return "it is in the file of Janus, which has not read it yet or cannot load it (a port that is in use, a codec that it does not know); the log of Janus has the reason"
}

// known is the id of a mountpoint, as Janus has it and as text, and whether this driver
// made it.
func (d *Driver) known(name string) (id any, key string, made bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key = d.ids[name]
	_, made = d.secrets[key]
	return ident(d.strings, key), key, made
}

// restarted forgets when packets arrived: their ages begin anew.
func (d *Driver) restarted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.media)
}

// created notes a mountpoint that is new.
func (d *Driver) created(id, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[name] = id
	delete(d.media, id)
}

func (d *Driver) judge(id string, made bool, info map[string]any) (effect, detail string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	streams := d.media[id]
	if streams == nil {
		streams = map[string]seen{}
		d.media[id] = streams
	}
	var missing []string
	judged, unsure := 0, false
	list, _ := info["media"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		if m["age_ms"] == nil || m["type"] == "data" {
			continue
		}
		judged++
		mid, age := fmt.Sprint(m["mid"]), time.Duration(integer(m["age_ms"]))*time.Millisecond
		at := time.Now().Add(-age)
		was, before := streams[mid]
		now := seen{last: at, moving: was.moving || before && at.Sub(was.last) > jitter}
		if !now.moving && before {
			now.last = was.last
		}
		streams[mid] = now
		switch {
		case age >= silent:
			missing = append(missing, fmt.Sprintf("%s for %d s", mid, int(age.Seconds())))
		case !now.moving && made:
			missing = append(missing, mid+" yet")
		case !now.moving:
			unsure = true
		}
	}
	switch {
	case len(missing) > 0:
		return nodesdk.NotInEffect, "no media arrive on " + strings.Join(missing, ", "), nil
	case judged == 0 || unsure:
		return "", "", errors.New("it is not known yet")
	}
	return nodesdk.InEffect, "media arrive", nil
}
