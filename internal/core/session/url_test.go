package session

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestURLsOfAPod: a pod with a host has the URLs of its routes, and none without.
func TestURLsOfAPod(t *testing.T) {
	pod := Pod{Workloads: []Workload{
		{Kind: "route", Name: "a", Spec: json.RawMessage(`{"host":"lab.example","workspace":"w","port":80}`)},
		{Kind: "route", Name: "b", Spec: json.RawMessage(`{"path":"/api","tls":"cert","workspace":"w","port":80}`)},
		{Kind: "network", Name: "c", Spec: json.RawMessage(`{}`)},
	}}
	if got := pod.urls("web-1"); !slices.Equal(got, []string{"http://lab.example/", "https://web-1/api"}) {
		t.Errorf("%v", got)
	}
	if got := pod.urls(""); got != nil {
		t.Errorf("without a host: %v", got)
	}
}
