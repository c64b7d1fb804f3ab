package auth

import (
	"errors"
	"time"
)

// writeEvery is the least time between two attempts of requests to store what
// the store could not take.
const writeEvery = 2 * time.Second

// An unwritten is a sign-in or renewal that the store could not take. Its tokens
// are the only good ones: those in the store were spent for them.
type unwritten struct {
	settings *settings
	record   *record
	fresh    bool      // a sign-in: the settings are not in the store either
	stamp    time.Time // of the settings file then: who signs in or out after that has the last word
	tried    time.Time
	cause    error
}

// preserve adopts a record and stores it. One that cannot be stored counts all
// the same while this process runs, and is stored as soon as that works.
func (o *oauth) preserve(s *settings, r *record, fresh bool) {
	if held := o.stillHeld(); held != nil && held.fresh {
		fresh = true
	}
	err := o.write(s, r, fresh)
	u := (*unwritten)(nil)
	if err != nil {
		u = &unwritten{settings: s, record: r, fresh: fresh, stamp: o.cfg.Store.stamp("servers", o.name), tried: time.Now(), cause: err}
	}
	o.mu.Lock()
	o.settings, o.record, o.unwritten = s, r, u
	o.mu.Unlock()
	if err != nil {
		o.cfg.Log.Warn("the tokens cannot be stored; they are used while this process runs, and stored when that works",
			"server", shown(o.cfg.Server), "error", err)
	}
}

// write stores first the tokens, then with fresh the settings that name them. A
// crash in between leaves the old sign-in in force.
func (o *oauth) write(s *settings, r *record, fresh bool) error {
	store := o.cfg.Store
	if err := store.putSealed("tokens", s.Record, r); err != nil || !fresh {
		return err
	}
	var last settings
	found, err := store.getPlain("servers", o.name, &last)
	if err != nil {
		return err
	}
	if err := store.putPlain("servers", o.name, s); err != nil {
		return err
	}
	if found && last.Record != "" && last.Record != s.Record {
		if err := store.remove("tokens", last.Record); err != nil {
			o.cfg.Log.Warn("the tokens of the sign-in before cannot be removed", "error", err)
		}
	}
	return nil
}

// held is what is not in the store and still counts, given the stamp of the
// settings file; nil if nothing is.
func (o *oauth) held(stamp time.Time) *unwritten {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.unwritten; u != nil && !u.stamp.Equal(stamp) {
		o.unwritten = nil
	}
	return o.unwritten
}

// stillHeld looks at the settings file for held, if there is anything to look for.
func (o *oauth) stillHeld() *unwritten {
	o.mu.Lock()
	nothing := o.unwritten == nil
	o.mu.Unlock()
	if nothing {
		return nil
	}
	return o.held(o.cfg.Store.stamp("servers", o.name))
}

// supersedes reports whether u counts rather than the record that the store holds
// for the settings s; stored is nil if it holds none.
func (u *unwritten) supersedes(s *settings, stored *record) bool {
	return u != nil && u.settings.Record == s.Record && (u.fresh || stored == nil || stored.Serial < u.record.Serial)
}

// flush stores what the store could not take, unless another process renews at
// this moment. It returns why that still does not work.
func (o *oauth) flush(least time.Duration) error {
	u := o.stillHeld()
	if u == nil {
		return nil
	}
	o.mu.Lock()
	due := time.Since(u.tried) >= least
	if due {
		u.tried = time.Now()
	}
	o.mu.Unlock()
	if !due {
		return u.cause
	}
	unlock, ok, err := o.cfg.Store.tryLock("token-" + u.settings.Record)
	if err != nil || !ok {
		return errors.Join(u.cause, err)
	}
	defer unlock()
	if u.fresh {
		unlockStored, ok, err := o.cfg.Store.tryLock("stored-" + o.name)
		if err != nil || !ok {
			return errors.Join(u.cause, err)
		}
		defer unlockStored()
	}
	if u != o.stillHeld() {
		return nil
	}
	var stored record
	found, err := o.cfg.Store.getSealed("tokens", u.settings.Record, &stored)
	if err != nil {
		return err
	}
	if !found || u.supersedes(u.settings, &stored) {
		if err := o.write(u.settings, u.record, u.fresh); err != nil {
			return err
		}
		o.cfg.Log.Info("the tokens are stored now", "server", shown(o.cfg.Server))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwritten == u {
		o.unwritten = nil
	}
	return nil
}
