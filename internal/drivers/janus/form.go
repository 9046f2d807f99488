package janus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// Collections are what the driver's objects are.
var Collections = []nodesdk.Collection{{
	Kind: nodeconfig.Flow,
	Sets: map[string]string{"media": "mid", "startup/set/media": "mid"},
	Secrets: []string{"secret", "pin", "srtpcrypto", "rtsp_pwd", "startup/set/secret", "startup/set/pin",
		"startup/set/srtpcrypto", "startup/set/rtsp_pwd"},
	Ignored: []string{cause},
	Ports:   []string{"media/*/port udp", "media/*/rtcpport udp", "media/*/port2 udp", "media/*/port3 udp"},
}}

// Kinds of values.
const (
	text = iota
	number
	flag
)

// common are the members of a mountpoint of any type, beside its media.
var common = map[string]int{
	"type": text, "id": text, "description": text, "metadata": text, "secret": text, "pin": text,
	"is_private": flag, "enabled": flag, "permanent": flag,
}

// byType are those of one type more.
var byType = map[string]map[string]int{
	"rtp": {"collision": number, "threads": number, "srtpsuite": number, "srtpcrypto": text, "e2ee": flag, "playoutdelay_ext": flag,
		"datatype": text, "buffermsg": flag},
	"live":     {"filename": text, "audio": flag, "audiocodec": text, "audiopt": number, "audiofmtp": text},
	"ondemand": {"filename": text, "audio": flag, "audiocodec": text, "audiopt": number, "audiofmtp": text},
	"rtsp": {"url": text, "rtsp_user": text, "rtsp_pwd": text, "rtsp_quirk": flag, "rtspiface": text, "threads": number,
		"audio": flag, "audiocodec": text, "audiofmtp": text, "video": flag, "videocodec": text, "videofmtp": text},
}

// ofMedia are the members of an element of media.
var ofMedia = map[string]int{
	"type": text, "mid": text, "label": text, "msid": text, "mcast": text, "iface": text, "port": number, "rtcpport": number,
	"pt": number, "codec": text, "fmtp": text, "skew": flag, "bufferkf": flag, "simulcast": flag, "port2": number, "port3": number, "svc": flag,
}

// unreported are members that the API does not report: they are what the file has.
var unreported, unreportedOfMedia = []string{"srtpsuite", "srtpcrypto", "e2ee", "playoutdelay_ext", "datatype", "buffermsg"}, []string{"mcast", "iface"}

// Members that say how Janus and its file differ. They are reported and not pushed.
const (
	startup  = "startup"  // what another start would make of it
	running  = "running"  // false: it stands in the file alone
	cause    = "cause"    // why it does
	withheld = "withheld" // true: Janus hides the rest, for its secret is another one than in the file
)

// Normalize implements nodesdk.Driver.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	it = nodesdk.Fold{Nulls: true, Numbers: true}.Item(it) // the file has texts, and no null
	v, err := nodeconfig.Decode(it.Config)
	m, is := v.(map[string]any)
	if err != nil || !is {
		return it
	}
	if raw, err := json.Marshal(normal(it.ID, m)); err == nil {
		it.Config = raw
	}
	return it
}

// normal is a mountpoint as the API has it: media in a list, values of their own type, and
// nothing that is so by itself.
func normal(name string, m map[string]any) map[string]any {
	out := overlay(m, nil)
	if out["type"] == nil {
		out["type"] = "rtp"
	}
	if out["type"] == "rtp" {
		if out["media"] == nil {
			if media := legacy(out); len(media) > 0 {
				out["media"] = media
			}
		}
		if list, is := out["media"].([]any); is {
			media := make([]any, len(list))
			for i, e := range list {
				media[i] = e
				if stream, is := e.(map[string]any); is {
					media[i] = normalMedia(stream)
				}
			}
			out["media"] = media
		}
	}
	typed(out, common)
	typed(out, byType[fmt.Sprint(out["type"])])
	if out["type"] == "live" || out["type"] == "ondemand" {
		drop(out, "audio", true)
	}
	drop(out, "permanent", true)
	drop(out, "enabled", true)
	drop(out, "name", name)
	drop(out, "description", name)
	if id := fmt.Sprint(out["id"]); id == name || id == numericID(name) {
		delete(out, "id")
	}
	return out
}

func normalMedia(m map[string]any) map[string]any {
	out := maps.Clone(m)
	typed(out, ofMedia)
	if s, is := out["rtpmap"].(string); is {
		if out["codec"] == nil {
			out["codec"], _, _ = strings.Cut(s, "/")
		}
		delete(out, "rtpmap")
	}
	if s, is := out["codec"].(string); is {
		out["codec"] = strings.ToLower(s)
	}
	drop(out, "label", out["type"])
	return out
}

// typed gives values the type that the API has for them, and removes what is so by itself:
// the file has texts for all.
func typed(m map[string]any, kinds map[string]int) {
	for name, kind := range kinds { // order-free: each by itself
		s, isText := m[name].(string)
		switch {
		case kind == flag && isText:
			m[name] = s == "1" || strings.EqualFold(s, "true") || strings.EqualFold(s, "yes")
		case kind == number && isText:
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				m[name] = json.Number(strconv.FormatInt(n, 10))
			}
		case kind == text:
			switch v := m[name].(type) {
			case json.Number:
				m[name] = string(v)
			case bool:
				m[name] = strconv.FormatBool(v)
			}
		}
		if kind == flag && name != "enabled" && name != "permanent" {
			drop(m, name, false)
		}
		if kind == number && name != "pt" && name != "port" && name != "rtcpport" || kind == text {
			drop(m, name, json.Number("0"))
			drop(m, name, "")
		}
	}
}

func drop(m map[string]any, name string, value any) {
	if m[name] == value {
		delete(m, name)
	}
}

// legacy are the media of a mountpoint that is described by members such as audioport,
// which it removes.
func legacy(m map[string]any) (media []any) {
	for _, kind := range []string{"audio", "video", "data"} {
		on := map[string]any{"on": m[kind]}
		typed(on, map[string]int{"on": flag})
		stream := map[string]any{"type": kind, "mid": kind[:1]}
		for _, name := range slices.Sorted(maps.Keys(ofMedia)) {
			if v, there := m[kind+name]; there {
				stream[name] = v
				delete(m, kind+name)
			}
		}
		if s, is := m[kind+"rtpmap"]; is {
			stream["rtpmap"] = s
			delete(m, kind+"rtpmap")
		}
		delete(m, kind)
		if on["on"] == true {
			media = append(media, stream)
		}
	}
	return media
}

// numericID is the id of a mountpoint that is given none, where ids are numbers: the same
// at every creation, and as Janus' own below 2^53.
func numericID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>11|1, 10)
}

// problems lists what Janus would pass over in silence.
func problems(name string, want map[string]any) (out []nodesdk.Problem) {
	add := func(field, message string) {
		out = append(out, nodesdk.Problem{Field: field, Message: message})
	}
	if !settingName(name) {
		add("", fmt.Sprintf("the name %q: expected a letter, and then letters, digits, - and _, for Janus cannot write others into its file", name))
	}
	kind, _ := want["type"].(string)
	known := byType[kind]
	if known == nil {
		add("type", "expected one of rtp, live, ondemand, rtsp")
		return out
	}
	for _, member := range slices.Sorted(maps.Keys(want)) {
		_, ofAny := common[member]
		_, ofThis := known[member]
		switch {
		case member == startup, member == running, member == cause, member == withheld:
			add(member, "it says what Janus has, and cannot be pushed")
		case !ofAny && !ofThis && !(member == "media" && kind == "rtp"):
			add(member, "Janus knows no such field of a mountpoint of type "+kind)
		}
	}
	media, isList := want["media"].([]any)
	if kind == "rtp" && (!isList || len(media) == 0) {
		add("media", "expected a list of at least one stream")
	}
	var mids []string
	for i, e := range media {
		stream, is := e.(map[string]any)
		mid, named := stream["mid"].(string)
		if !is || !named || slices.Contains(mids, mid) {
			add(fmt.Sprintf("media/%d", i), "expected an object with a mid of its own")
			continue
		}
		mids = append(mids, mid)
		for _, member := range slices.Sorted(maps.Keys(stream)) {
			if _, is := ofMedia[member]; !is {
				add(nodeconfig.Field([]string{"media", mid, member}), "Janus knows no such field of a stream")
			}
		}
	}
	return out
}

// differing lists the top members that differ.
func differing(a, b map[string]any) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(overlay(a, b))) {
		if !equal(a[name], b[name]) {
			out = append(out, name)
		}
	}
	return out
}

func overlay(a, b map[string]any) map[string]any {
	out := make(map[string]any, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func equal(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
