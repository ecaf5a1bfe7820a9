//! How long a certificate is good.

use super::IdentityError;
use jiff::{SignedDuration, Timestamp};
use time::OffsetDateTime;

/// From when until when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    from: Timestamp,
    until: Timestamp,
}

/// About a century.
const MOST_DAYS: u32 = 36_500;

impl Validity {
    /// From now on for a number of days. It begins an hour ago, for clients whose clock is slow.
    pub fn days(days: u32) -> Result<Self, IdentityError> {
        if !(1..=MOST_DAYS).contains(&days) {
            return Err(IdentityError::Value {
                key: "days",
                value: days.to_string(),
                reason: format!("a certificate is good for between 1 and {MOST_DAYS} days"),
                hint: "choose a number in this range, such as --days 365".into(),
            });
        }
        let now = Timestamp::now();
        let length = SignedDuration::from_hours(24 * i64::from(days));
        Ok(Self::between(now - SignedDuration::from_hours(1), now + length))
    }

    /// Between two moments.
    pub fn between(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until }
    }

    /// Its end.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Cut off at the end of the authority, beyond which its word is worth nothing.
    pub(crate) fn within(self, authority: Timestamp) -> Self {
        Self { until: self.until.min(authority), ..self }
    }

    /// As the certificate library wants it.
    pub(crate) fn dates(&self) -> Result<(OffsetDateTime, OffsetDateTime), IdentityError> {
        Ok((date(self.from)?, date(self.until)?))
    }
}

/// A moment as the certificate library wants it, in whole seconds.
pub(crate) fn date(moment: Timestamp) -> Result<OffsetDateTime, IdentityError> {
    OffsetDateTime::from_unix_timestamp(moment.as_second())
        .map_err(|error| IdentityError::crypto("write a date into a certificate", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_bounded_and_the_authority_has_the_last_word() {
        for days in [0, MOST_DAYS + 1, u32::MAX] {
            let message = Validity::days(days).unwrap_err().to_string();
            assert!(message.contains(&format!("days = {days} is not")), "{message}");
            assert!(message.contains("\nhint: "), "{message}");
        }
        let (year, week) = (Validity::days(365).unwrap(), Validity::days(7).unwrap());
        assert_eq!(year.within(week.until()).until(), week.until());
        assert_eq!(week.within(year.until()), week);
        assert!(Validity::days(MOST_DAYS).unwrap().dates().is_ok());
    }
}
