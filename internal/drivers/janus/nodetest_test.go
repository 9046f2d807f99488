package janus

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// TestConformance runs the suite on Debian's Janus, one of its own for each case.
func TestConformance(t *testing.T) {
	t.Parallel()
	p := testkit.Ports(t, "udp", 206)
	audio := func(port int) string {
		return fmt.Sprintf(`{"mid":"a","type":"audio","port":%d,"pt":111,"codec":"opus"}`, port)
	}
	nodetest.Run(t, nodetest.Harness{
		Start: device,
		Examples: []nodetest.Example{
			{Kind: "flow", ID: "camera-1", Secret: "pin",
				Config: json.RawMessage(fmt.Sprintf(`{"type":"rtp","metadata":"{\"x\": 1}","secret":"of-the-mountpoint","pin":"0000","media":[%s,{"mid":"v","type":"video","label":"main","port":%d,"rtcpport":%d,"pt":100,"codec":"vp8"}]}`, audio(p[0]), p[1], p[2])),
				Edited: json.RawMessage(fmt.Sprintf(`{"type":"rtp","description":"Camera 1","secret":"of-the-mountpoint","pin":"1111","media":[%s]}`, audio(p[0])))},
			{Kind: "flow", ID: "camera-2",
				Config: json.RawMessage(fmt.Sprintf(`{"type":"rtp","is_private":true,"media":[%s]}`, audio(p[3]))),
				Edited: json.RawMessage(fmt.Sprintf(`{"type":"rtp","is_private":true,"description":"Camera 2","media":[%s]}`, audio(p[3])))},
		},
		Many: func(n int) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"type":"rtp","media":[%s]}`, audio(p[5+n])))
		},
	})
}

func device(t *testing.T) *nodetest.Device {
	g := start(t)
	return &nodetest.Device{
		Driver:      g.driver(),
		Collections: Collections,
		EditByAPI:   func(_, id string, config json.RawMessage) error { return g.setByAPI(id, config) },
		EditByFile:  func(_, id string, config json.RawMessage) error { return g.setByFile(id, config) },
		Restart:     g.restart,
		RestartEmpty: func() error {
			g.Kill()
			g.Write(filepath.Base(g.driver().file.path), testkit.JanusStreaming)
			g.Restart()
			return nil
		},
		BusyPort: func(t *testing.T) nodetest.Example {
			c, err := net.ListenPacket("udp", ":0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return nodetest.Example{Kind: "flow", ID: "busy", Config: json.RawMessage(fmt.Sprintf(
				`{"type":"rtp","media":[{"mid":"a","type":"audio","port":%d,"pt":111,"codec":"opus"}]}`, c.LocalAddr().(*net.UDPAddr).Port))}
		},
		Partial: func() error { g.front.loseNext.Store(true); return nil },
		Break: func() (func() error, error) {
			g.front.broken.Store(true)
			return func() error { g.front.broken.Store(false); return nil }, nil
		},
	}
}
