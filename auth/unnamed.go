package auth

// unnamedRecord is the newest record for the issuer, resource and --principal of s
// and for a subject, which may be unknown, whatever client it was made as, that no
// settings name: they are lost, and the account need not be. nil if there is none.
func (o *oauth) unnamedRecord(s *settings, subject string) (*record, error) {
	store := o.cfg.Store
	named, err := store.namedRecords()
	if err != nil {
		return nil, err
	}
	names, err := store.names("tokens")
	if err != nil {
		return nil, err
	}
	var newest *record
	for _, name := range names {
		if named[name] {
			continue
		}
		var r record
		found, err := store.getSealed("tokens", name, &r)
		if err != nil {
			return nil, err
		}
		ours := found && r.Subject == subject && name == recordName(s.Issuer, r.ClientID, s.Resource, o.cfg.Principal)
		if ours && (newest == nil || r.Serial > newest.Serial) {
			newest = &r
		}
	}
	return newest, nil
}

// removeUnnamed removes a record whose account another one has now.
func (o *oauth) removeUnnamed(r *record, s *settings) {
	if r == nil {
		return
	}
	if name := recordName(r.Issuer, r.ClientID, r.Resource, o.cfg.Principal); name != recordName(s.Issuer, s.ClientID, s.Resource, o.cfg.Principal) {
		if err := o.cfg.Store.remove("tokens", name); err != nil {
			o.cfg.Log.Warn("the tokens of a sign-in whose settings are lost cannot be removed", "error", err)
		}
	}
}

// namedRecords are the records that the settings of some server name.
func (s *Store) namedRecords() (map[string]bool, error) {
	servers, err := s.names("servers")
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, name := range servers {
		var of settings
		found, err := s.getPlain("servers", name, &of)
		if err != nil {
			return nil, err
		}
		if found {
			named[of.Record] = true
		}
	}
	return named, nil
}
