package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// A jobObject is a job as JSON for programs: what a host gets, and to whom the
// job belongs. Times are in UTC. No key, session or content is in it but the
// result, where it was asked for.
type jobObject struct {
	Message string `json:"message"`
	jobs.Summary
	Principal  string          `json:"principal"`
	Owner      string          `json:"owner"`
	OwnerLost  bool            `json:"ownerLost,omitempty"`
	Class      jobs.Class      `json:"class"`
	Directory  string          `json:"directory,omitempty"`
	Resolution string          `json:"resolution,omitempty"`
	Told       bool            `json:"told"`
	Read       bool            `json:"read"`
	ResultSize int64           `json:"resultSize,omitempty"` // bytes
	Next       *nextCall       `json:"next,omitempty"`
	Timeline   []jobs.Event    `json:"timeline,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
}

// A nextCall is the tool with which a model goes on.
type nextCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// object makes the object of a job, with its result where that is kept and
// wanted.
func (d *desk) object(ctx context.Context, j *jobs.Job, result bool) (jobObject, error) {
	lost := d.lost(ctx, j)
	o := jobObject{
		Message: message(j, lost, time.Now()), Summary: j.Summary(), Principal: j.Principal, Owner: j.Owner, OwnerLost: lost,
		Class: j.Class, Directory: j.Directory, Resolution: j.Resolution, Told: j.Told, Read: j.Read, ResultSize: j.Result.Size,
	}
	for _, t := range []*time.Time{&o.CreatedAt, &o.UpdatedAt, &o.ExpiresAt} {
		*t = t.UTC()
	}
	if isOpen(j) {
		o.Next = &nextCall{"mcpbridge_job", map[string]any{"handle": j.Handle}}
	}
	if !result {
		return o, nil
	}
	body, _, err := d.journal.Result(ctx, j.Handle)
	if err != nil && !errors.Is(err, jobs.ErrNoResult) {
		return o, err
	}
	o.Result = body
	return o, nil
}

// withTimeline adds what was observed of a job.
func (o jobObject) withTimeline(j *jobs.Job) jobObject {
	for _, e := range j.Timeline {
		e.At = e.At.UTC()
		o.Timeline = append(o.Timeline, e)
	}
	return o
}

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
