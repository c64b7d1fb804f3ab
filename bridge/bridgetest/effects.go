package bridgetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// keyed are the arguments of a tool with an effect.
type keyed struct {
	Key   string
	Text  string
	Value string
	Once  string `json:"idempotency_key"`
}

func runGetItem(c *Call) (any, error) {
	var a keyed
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	s := &c.up.state
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.items[a.Key]
	if !ok {
		return Failure(fmt.Sprintf("item %q does not exist", a.Key)), nil
	}
	return Text(v), nil
}

// runWriteNote writes once per idempotency key, if it is given one.
func runWriteNote(c *Call) (any, error) {
	var a keyed
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	if old, ok := c.up.state.again(a.Once, a.Key); ok {
		return Text("wrote " + old + " before"), nil
	}
	c.Effect(a.Key)
	return Text("wrote " + a.Key), nil
}

// again reports what was written under an idempotency key before, else notes it.
func (s *state) again(once, key string) (string, bool) {
	if once == "" {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.once[once]; ok {
		return old, true
	}
	s.once[once] = key
	return "", false
}

func runPutItem(c *Call) (any, error) {
	var a keyed
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.up.state.mu.Lock()
	c.up.state.items[a.Key] = a.Value
	c.up.state.mu.Unlock()
	c.Effect(a.Key)
	c.up.Notify("notifications/resources/updated", object{"uri": itemURI(a.Key)})
	return Text("put " + a.Key), nil
}

func runUnmarked(c *Call) (any, error) {
	var a keyed
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.Effect(a.Key)
	return Text("did " + a.Key), nil
}

func runFailWrite(c *Call) (any, error) {
	var a keyed
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.Effect(a.Key)
	return Failure("wrote " + a.Key + ", then failed"), nil
}

// runSlowWrite goes on when the client leaves, as most servers do, unless
// on_cancel is "stop".
func runSlowWrite(c *Call) (any, error) {
	a := struct {
		Key      string
		Ms       int
		EffectAt string `json:"effect_at"`
		OnCancel string `json:"on_cancel"`
	}{EffectAt: "END"}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	if a.EffectAt == "START" {
		c.Effect(a.Key)
	}
	work := c.Work
	if a.OnCancel == "stop" {
		work = c.Sleep
	}
	if err := work(millis(a.Ms)); err != nil {
		return nil, err
	}
	if a.EffectAt != "START" {
		c.Effect(a.Key)
	}
	return Text("wrote " + a.Key), nil
}

type streaming struct {
	Key      string
	N        int
	Interval int
	Log      bool
}

func runStream(c *Call) (any, error) {
	a := streaming{N: 3}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	if err := c.steps(a); err != nil {
		return nil, err
	}
	return Text(fmt.Sprintf("streamed %d", a.N)), nil
}

// runStreamWrite has its effect before the first step.
func runStreamWrite(c *Call) (any, error) {
	a := streaming{N: 3}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	c.Effect(a.Key)
	if err := c.steps(a); err != nil {
		return nil, err
	}
	return Text("wrote " + a.Key), nil
}

// steps reports progress n times, interval milliseconds apart.
func (c *Call) steps(a streaming) error {
	for i := range a.N {
		if a.Log {
			c.Log("info", object{"step": i + 1})
		}
		c.Progress(i+1, a.N, "step "+strconv.Itoa(i+1))
		if err := c.Sleep(millis(a.Interval)); err != nil {
			return err
		}
	}
	return nil
}

// runAsk asks in one or more rounds, then has an effect if it is told to.
func runAsk(c *Call) (any, error) {
	a := struct {
		Key    string
		Kind   string
		Rounds int
		Effect bool
	}{Kind: "elicitation", Rounds: 1}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	answers := make([]json.RawMessage, 0, 1)
	for i := range a.Rounds {
		method, params := c.questionOf(a.Kind, i+1)
		answer, err := c.Ask("q"+strconv.Itoa(i+1), method, params)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	if a.Effect {
		c.Effect(a.Key)
	}
	return Structured(object{"answers": answers}), nil
}

// questionOf returns a question of the kind as the revision of the call has it.
func (c *Call) questionOf(kind string, round int) (string, any) {
	text := fmt.Sprintf("question %d", round)
	switch kind {
	case "sampling":
		return "sampling/createMessage", object{
			"messages":  []any{object{"role": "user", "content": object{"type": "text", "text": text}}},
			"maxTokens": 100,
		}
	case "roots":
		return "roots/list", object{}
	case "ping":
		return "ping", object{}
	case "url":
		p := object{"mode": "url", "message": text, "url": "https://example.com/confirm?round=" + strconv.Itoa(round)}
		if !c.Modern() {
			p["elicitationId"] = "e" + strconv.Itoa(round)
		}
		return "elicitation/create", p
	}
	p := object{
		"message":         text,
		"requestedSchema": raw(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	}
	if c.version >= "2025-11-25" {
		p["mode"] = "form"
	}
	return "elicitation/create", p
}

// runStartExport starts an export once per requestId; it takes a moment to be
// queued and ms milliseconds in all.
func runStartExport(c *Call) (any, error) {
	a := struct {
		RequestID string `json:"requestId"`
		Ms        int
	}{}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	s := &c.up.state
	s.mu.Lock()
	_, known := s.exports[a.RequestID]
	if !known {
		s.exports[a.RequestID] = export{time.Now(), millis(a.Ms)}
	}
	s.mu.Unlock()
	if !known {
		c.Effect(a.RequestID)
	}
	return Structured(object{"id": a.RequestID, "status": c.up.exportStatus(a.RequestID)}), nil
}

func runGetExport(c *Call) (any, error) {
	var a struct{ ID string }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	status := c.up.exportStatus(a.ID)
	o := object{"id": a.ID, "status": status}
	if status == "done" {
		o["result"] = object{"rows": 42, "id": a.ID}
	}
	return Structured(o), nil
}

func (u *Upstream) exportStatus(id string) string {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	e, ok := u.state.exports[id]
	switch age := time.Since(e.begun); {
	case !ok:
		return "not_found"
	case age >= e.takes:
		return "done"
	case age >= e.takes/4:
		return "running"
	}
	return "queued"
}
