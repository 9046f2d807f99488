package image

// Waiting counts who shares a pull.
func (m *Manager) Waiting(key string) int {
	m.pulls.mu.Lock()
	defer m.pulls.mu.Unlock()
	if w := m.pulls.running[key]; w != nil {
		return w.waiting
	}
	return 0
}
