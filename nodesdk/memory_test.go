package nodesdk_test

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/steadyfleet/steady/nodesdk"
)

// memory is a device in memory.
type memory struct {
	mu    sync.Mutex
	items map[string]json.RawMessage
}

func newMemory() *memory { return &memory{items: map[string]json.RawMessage{}} }

func (m *memory) set(id, config string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[id] = json.RawMessage(config)
}

func (m *memory) Snapshot(context.Context) (nodesdk.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := nodesdk.State{Complete: true}
	for id, c := range m.items {
		s.Items = append(s.Items, nodesdk.Item{Kind: "flow", ID: id, Config: c})
	}
	return s, nil
}

func (m *memory) Apply(_ context.Context, op nodesdk.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op.Delete {
		delete(m.items, op.ID)
		return nil
	}
	m.items[op.ID] = op.Config
	return nil
}

func (m *memory) Normalize(it nodesdk.Item) nodesdk.Item { return it }
