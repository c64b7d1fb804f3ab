package jobs

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// appendRecord appends the record of a job, which json.Unmarshal reads. It is
// written out because a record is encoded three times in each journaled call,
// while others wait for the turn: reflection took half of the time in which a turn
// changes the tables.
func (j *Job) appendRecord(b []byte) ([]byte, error) {
	e := encoder{b: append(b, '{')}
	e.text("handle", string(j.Handle))
	e.text("server", j.Server)
	e.text("principal", j.Principal)
	e.text("tool", j.Tool)
	e.text("class", j.Class.String())
	e.flag("unannotated", j.Unannotated)
	e.flag("destructive", j.Destructive)
	if j.Guard != 0 {
		e.text("guard", j.Guard.String())
	}
	if j.Store != 0 {
		e.text("store", j.Store.String())
	}
	e.someText("directory", j.Directory)
	e.print("fingerprint", j.Fingerprint)
	e.print("toolPrint", j.ToolPrint)
	e.somePrint("keyPrint", j.KeyPrint)
	e.someText("keyOf", string(j.KeyOf))
	e.bytes("sealedKey", j.SealedKey)
	e.text("state", j.State.String())
	e.number("version", j.Version)
	e.text("effect", j.Effect.String())
	e.text("evidence", string(j.Evidence))
	e.someText("endedBy", j.EndedBy)
	e.someText("resolution", j.Resolution)
	e.flag("conflict", j.Conflict)
	e.text("owner", j.Owner)
	e.someText("waiter", j.Waiter)
	e.flag("handleOut", j.HandleOut)
	e.flag("told", j.Told)
	e.flag("read", j.Read)
	e.flag("warned", j.Warned)
	e.flag("putToUser", j.PutToUser)
	if len(j.ToldEnds) > 0 {
		e.any("toldEnds", j.ToldEnds)
	}
	e.time("createdAt", j.CreatedAt)
	e.time("updatedAt", j.UpdatedAt)
	e.time("changedAt", j.ChangedAt)
	if !j.EndedAt.IsZero() {
		e.time("endedAt", j.EndedAt)
	}
	if j.Deliveries != 0 {
		e.number("deliveries", uint64(j.Deliveries))
	}
	e.timeline(j.Timeline)
	if j.Progress != nil {
		e.any("progress", j.Progress)
	}
	if len(j.Questions) > 0 {
		e.any("questions", j.Questions)
	}
	e.someText("upstreamTask", j.UpstreamTask)
	e.bytes("sealedResume", j.SealedResume)
	e.somePrint("round", j.Round)
	if j.Rounds != 0 {
		e.number("rounds", uint64(j.Rounds))
	}
	if len(j.UsedRounds) > 0 {
		e.any("usedRounds", j.UsedRounds)
	}
	e.body("arguments", &j.Arguments)
	e.body("result", &j.Result)
	if j.ResultKind != 0 {
		e.text("resultKind", j.ResultKind.String())
	}
	e.someText("supersedes", string(j.Supersedes))
	e.someText("supersededBy", string(j.SupersededBy))
	return append(e.b, '}'), e.err
}

// An encoder appends the members of a JSON object; its first failure sticks.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) name(s string) {
	if e.b[len(e.b)-1] != '{' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, '"')
	e.b = append(e.b, s...)
	e.b = append(e.b, '"', ':')
}

func (e *encoder) text(name, v string) {
	e.name(name)
	if plain(v) {
		e.b = append(append(append(e.b, '"'), v...), '"')
		return
	}
	e.b, _ = jsontext.AppendQuote(e.b, v) // an error only says that it mended UTF-8
}

// plain reports whether text stands in a JSON string as it is. Nearly all does.
func plain(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (e *encoder) someText(name, v string) {
	if v != "" {
		e.text(name, v)
	}
}

func (e *encoder) flag(name string, v bool) {
	if v {
		e.name(name)
		e.b = append(e.b, "true"...)
	}
}

func (e *encoder) number(name string, v uint64) {
	e.name(name)
	e.b = strconv.AppendUint(e.b, v, 10)
}

func (e *encoder) time(name string, v time.Time) {
	e.name(name)
	e.b = append(e.b, '"')
	e.b = v.AppendFormat(e.b, time.RFC3339Nano)
	e.b = append(e.b, '"')
}

func (e *encoder) bytes(name string, v []byte) {
	if len(v) > 0 {
		e.name(name)
		e.b = append(e.b, '"')
		e.b = base64.StdEncoding.AppendEncode(e.b, v)
		e.b = append(e.b, '"')
	}
}

func (e *encoder) print(name string, v Print) {
	e.name(name)
	e.b = append(e.b, '"')
	e.b = base64.RawURLEncoding.AppendEncode(e.b, v[:])
	e.b = append(e.b, '"')
}

func (e *encoder) somePrint(name string, v Print) {
	if !v.IsZero() {
		e.print(name, v)
	}
}

func (e *encoder) timeline(list []Event) {
	if len(list) == 0 {
		return
	}
	e.name("timeline")
	for i, event := range list {
		e.b = append(e.b, "[,"[min(i, 1)], '{')
		e.time("at", event.At)
		e.text("what", event.What)
		e.someText("note", event.Note)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
}

func (e *encoder) body(name string, v *Body) {
	e.name(name)
	e.b = append(e.b, '{')
	if v.Size != 0 {
		e.number("size", uint64(v.Size))
	}
	e.flag("kept", v.Kept)
	e.someText("aside", v.Aside)
	e.b = append(e.b, '}')
}

// any is for what few jobs have.
func (e *encoder) any(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.name(name)
	e.b = append(e.b, text...)
}
