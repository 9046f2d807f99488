package netconf

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	nodetest.Run(t, nodetest.Harness{
		Start: device,
		Examples: []nodetest.Example{
			{Kind: "flow", ID: "camera-1", Secret: "auth/password",
				Config: json.RawMessage(`{"port":5001,"enabled":true,"auth":{"user":"u","password":"p4ss-w0rd"},"tag":["a","b"],"output":[{"id":"2","to":"x"},{"id":"1","to":"<&>"}]}`),
				Edited: json.RawMessage(`{"port":5002,"gain":1.5,"auth":{"user":"u","password":"p4ss-w0rd"},"tag":["b"]}`)},
			{Kind: "flow", ID: "camera 2/b é\"", Config: json.RawMessage(`{"port":6001}`), Edited: json.RawMessage(`{"port":6001,"enabled":false}`)},
		},
		Many: func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"port":%d}`, 10000+n)) },
	})
}

func device(t *testing.T) *nodetest.Device {
	w := newWorld(t)
	_, collections, err := Open(w.options(nil))
	testkit.Must(t, err)
	d, byHand := w.open(nil), w.open(nil)
	return &nodetest.Device{
		Driver:       d,
		Collections:  collections,
		EditByAPI:    func(_, id string, config json.RawMessage) error { return byHand.write(t, id, config) },
		Restart:      func() error { w.Restart(false); return nil },
		RestartEmpty: func() error { w.Restart(true); return nil },
		Break: func() (func() error, error) {
			w.Kill()
			return func() error { w.Start(); return nil }, nil
		},
	}
}

// write is an edit of somebody else: it replaces without comparing, and commits for good.
func (d *Driver) write(t *testing.T, id string, config json.RawMessage) error {
	s, err := d.session(t.Context())
	if err != nil {
		return err
	}
	to := &element{Name: d.path[len(d.path)-1], children: d.keyElements([]string{id})}
	if config != nil {
		if to, err = d.target(nodesdk.Op{Kind: "flow", ID: id, Config: config}); err != nil {
			return err
		}
	}
	operation := "replace"
	if config == nil {
		operation = "delete"
	}
	to.attrs = []xml.Attr{{Name: xml.Name{Local: "xmlns:nc"}, Value: nsBase}, {Name: xml.Name{Local: "nc:operation"}, Value: operation}}
	if _, err := s.rpc(t.Context(), "<edit-config><target><candidate/></target><config>"+d.nested(to).xml()+"</config></edit-config>"); err != nil {
		return err
	}
	_, err = s.rpc(t.Context(), "<commit/>")
	return err
}
