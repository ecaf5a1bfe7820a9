//! The list of revoked certificates, as an authority signs it.

use super::{Authority, signing};
use crate::identity::files::{self, Access};
use crate::identity::validity::date;
use crate::identity::{IdentityError, file, revocations};
use jiff::Timestamp;
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};

impl Authority {
    /// Writes the list of revoked certificates for the server.
    pub(super) fn sign_revocations(&self) -> Result<(), IdentityError> {
        files::write(&self.dir.join(file::REVOKED), &self.revocations()?, Access::Public)
    }

    /// A number above that of the list that is there, also if the clock went back meanwhile: servers refuse a list with a
    /// smaller one than they have seen.
    fn next_number(&self, now: Timestamp) -> u64 {
        let there = revocations::number_at(&self.dir.join(file::REVOKED));
        let clock = now.as_millisecond().unsigned_abs();
        there.map_or(clock, |number| clock.max(number.saturating_add(1)))
    }

    /// The list of revoked certificates, signed.
    pub(super) fn revocations(&self) -> Result<String, IdentityError> {
        let mut revoked_certs = Vec::new();
        for entry in self.ledger.entries() {
            if let (Some(at), Some(serial)) = (entry.revoked, entry.serial.to_bytes()) {
                revoked_certs.push(RevokedCertParams {
                    serial_number: SerialNumber::from_slice(&serial),
                    revocation_time: date(at)?,
                    reason_code: None,
                    invalidity_date: None,
                });
            }
        }
        let now = Timestamp::now();
        let list = CertificateRevocationListParams {
            this_update: date(now)?,
            next_update: date(self.expires)?,
            crl_number: SerialNumber::from(self.next_number(now)),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(signing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Validity;

    #[test]
    fn numbers_of_lists_rise_whatever_the_clock_does() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create(dir.path(), Validity::days(10).unwrap(), false).unwrap();
        let number = || revocations::number_at(&dir.path().join(file::REVOKED)).unwrap();
        let mut before = number();
        // More often than there are milliseconds.
        for _ in 0..20 {
            authority.sign_revocations().unwrap();
            assert!(number() > before);
            before = number();
        }
        let past = Timestamp::from_second(1).unwrap();
        assert_eq!(authority.next_number(past), before + 1);
        assert_eq!(revocations::number_at(&dir.path().join("nothing")), None);
    }
}
