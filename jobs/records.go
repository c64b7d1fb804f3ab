package jobs

import (
	"bytes"
	"maps"
	"sync"
)

// maxRecords bounds the records of which the decoded form is kept.
const maxRecords = 256

// records keep the decoded form of those that this process wrote last and will
// soon read again: a job is read at its end and when its host was told. What
// counts is what the store holds; only if that is the very text that was written
// need it not be decoded.
type records struct {
	mu    sync.Mutex
	known map[Handle]*record
}

// A record does not change: what changes a job makes another.
type record struct {
	text []byte
	job  Job
}

// get returns the job of a record if its text is known.
func (r *records) get(h Handle, text []byte) (Job, bool) {
	r.mu.Lock()
	k, ok := r.known[h]
	r.mu.Unlock()
	if !ok || !bytes.Equal(k.text, text) {
		return Job{}, false
	}
	return k.job.clone(), true
}

// rowKey returns the key that a job has among the recent ones, nil if it is not
// known.
func (j *Journal) rowKey(h Handle) []byte {
	j.records.mu.Lock()
	k, ok := j.records.known[h]
	j.records.mu.Unlock()
	if ok {
		return rowKey(&k.job)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if m, ok := j.mine[h]; ok {
		return rowKey(m.job)
	}
	return nil
}

// keep takes what a change wrote; a job that needs nobody any more is not read
// again so soon. Where there is no room, any other gives way: some will never be
// read here again, as another process went on with them.
func (r *records) keep(written map[Handle]*record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, k := range written {
		delete(r.known, h)
		if !k.job.live() {
			continue
		}
		if len(r.known) >= maxRecords {
			for other := range r.known {
				delete(r.known, other)
				break
			}
		}
		r.known[h] = k
	}
}

func (r *records) drop(h Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, h)
}

// clone copies what a Job shares with others and changes in place. What is empty
// is nil, as in one that was decoded.
func (j *Job) clone() Job {
	c := *j
	c.Timeline = append([]Event(nil), j.Timeline...)
	c.Questions = append([]Question(nil), j.Questions...)
	c.UsedRounds = append([]Print(nil), j.UsedRounds...)
	c.ToldEnds = maps.Clone(j.ToldEnds)
	return c
}
