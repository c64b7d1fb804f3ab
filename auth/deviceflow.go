package auth

import (
	"context"
	"fmt"
	"time"
)

// startDevice turns p into a sign-in on any device (RFC 8628).
func (o *oauth) startDevice(ctx context.Context, f *flow, p *pending) error {
	if p.endpoints.Device == "" {
		return fmt.Errorf("the authorization server %s offers no device sign-in", shownText(p.Settings.Issuer))
	}
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	d, err := endpoint.device(ctx, p.endpoints.Device, p.Scopes, p.Settings.Resource)
	if err != nil {
		return err
	}
	next := *p
	next.Device = &pendingDevice{
		Code: storedSecret{d.code}, UserCode: d.userCode, Page: d.page, PageAndCode: d.pageAndCode,
		Expiry: d.expiry, IntervalMs: d.interval.Milliseconds(),
	}
	if err := o.savePending(ctx, &next, f); err != nil {
		return err
	}
	*p = next
	return nil
}

// poll asks in the background whether the code of p was typed, until ctx ends;
// nil if p has none. The channel gets one outcome.
func (o *oauth) poll(ctx context.Context, p *pending) <-chan error {
	if p.Device == nil {
		return nil
	}
	polled := make(chan error, 1)
	o.work.Go(func() { polled <- o.awaitDevice(ctx, p) })
	return polled
}

func (o *oauth) awaitDevice(ctx context.Context, p *pending) error {
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	d := p.Device
	got, err := endpoint.await(ctx, deviceAnswer{code: d.Code.Secret, expiry: d.Expiry, interval: time.Duration(d.IntervalMs) * time.Millisecond}, p.Settings.Resource)
	if err != nil {
		return err
	}
	return o.keep(p, got)
}
