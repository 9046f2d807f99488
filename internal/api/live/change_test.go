package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// drawValue is a JSON value; strings often have the length of others.
func drawValue(t *rapid.T) json.RawMessage {
	var v any
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		v = rapid.IntRange(0, 3).Draw(t, "number")
	case 1:
		v = rapid.SliceOfN(rapid.StringN(0, 3, -1), 0, 3).Draw(t, "list")
	case 2:
		v = rapid.StringOfN(rapid.SampledFrom([]rune(`ab"\é<`)), 0, 6, -1).Draw(t, "text")
	default:
		v = rapid.StringOfN(rapid.SampledFrom([]rune("ccccwf")), 40, 40, -1).Draw(t, "cells")
	}
	raw, err := json.Marshal(v)
	testkit.Must(t, err)
	return raw
}

func drawAnswer(t *rapid.T) operator.Answer {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.Custom(drawValue), 0, 3).Draw(t, "answer")
}

// TestFrameMakesOneAnswerOfTheOther takes frames over the wire: what is applied to an answer is the next one,
// and there is a frame exactly where they differ.
func TestFrameMakesOneAnswerOfTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, now := drawAnswer(t), drawAnswer(t)
		for key, v := range was { // order-free: each has its own key
			if rapid.IntRange(0, 2).Draw(t, "kept") == 0 {
				now[key] = v
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "first") == 0 {
			was = nil
		}
		var f operator.Frame
		news := changed(&f, was, now)
		raw := testkit.Value(json.Marshal(f))(t)
		var came operator.Frame
		testkit.Must(t, json.Unmarshal(raw, &came))
		got, err := came.Apply(was)
		testkit.Must(t, err)
		if fmt.Sprintf("%s", got) != fmt.Sprintf("%s", now) {
			t.Fatalf("%s makes %s of %s, want %s", raw, got, was, now)
		}
		if same := was != nil && maps.EqualFunc(was, now, func(a, b json.RawMessage) bool { return string(a) == string(b) }); news == same {
			t.Fatalf("%s for %s and %s: %t", raw, was, now, news)
		}
	})
}

// TestSplicesAreShort: a few letters of many are sent as splices, and many as the whole.
func TestSplicesAreShort(t *testing.T) {
	text := func(change ...int) json.RawMessage {
		b := []byte(strings.Repeat("c", 1000))
		for _, i := range change {
			b[i] = 'f'
		}
		return json.RawMessage(`"` + string(b) + `"`)
	}
	for _, c := range []struct {
		now  json.RawMessage
		want string
	}{
		{text(0), `[[0,"f"]]`},
		{text(3, 5, 999), `[[3,"fcf"],[999,"f"]]`},
		{json.RawMessage(`"` + strings.Repeat("f", 1000) + `"`), `null`},
		{json.RawMessage(`"` + strings.Repeat("f", 999) + `"`), `null`},
		{json.RawMessage(`"` + strings.Repeat("é", 500) + `"`), `null`},
	} {
		if got := string(testkit.Value(json.Marshal(splices(text(), c.now)))(t)); got != c.want {
			t.Errorf("%.40s: %s, want %s", c.now, got, c.want)
		}
	}
}

func TestAnswersAreObjects(t *testing.T) {
	for body, want := range map[string]string{`{"a": 1}` + "\n": "map[a:1]", `[1]` + "\n": "map[items:[1]]"} {
		if got := fmt.Sprintf("%s", testkit.Value(object([]byte(body)))(t)); got != want {
			t.Errorf("%s is %s, want %s", body, got, want)
		}
	}
	for _, body := range []string{"", "null", "7", `{"a":`} {
		if a, err := object([]byte(body)); err == nil {
			t.Errorf("%q is %s", body, a)
		}
	}
}

// TestFrameThatDoesNotFitIsRefused: what another end sends changes nothing beyond its string.
func TestFrameThatDoesNotFitIsRefused(t *testing.T) {
	was := operator.Answer{"a": json.RawMessage(`"abc"`)}
	for _, parts := range []string{`[[3,"x"]]`, `[[-1,"x"]]`, `[[0,"abcd"]]`} {
		f := operator.Frame{}
		testkit.Must(t, json.Unmarshal([]byte(`{"splice":{"a":`+parts+`}}`), &f))
		if got, err := f.Apply(was); err == nil {
			t.Errorf("%s makes %s", parts, got)
		}
	}
	if string(was["a"]) != `"abc"` {
		t.Errorf("the answer before is now %s", was["a"])
	}
}
