//! Numbers as people read them, in errors, tables and reports.

/// A whole number with its thousands set apart: `44,426`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in decimal units: `512 B`, `178 kB`, `3.5 MB`.
pub fn bytes(size: u64) -> String {
    if size < 1000 {
        return format!("{size} B");
    }
    let mut size = size as f64 / 1000.0;
    let mut units = ["kB", "MB", "GB", "TB"].into_iter().peekable();
    while let Some(unit) = units.next() {
        if size < 999.5 || units.peek().is_none() {
            return if size < 9.95 {
                format!("{size:.1} {unit}")
            } else {
                format!("{size:.0} {unit}")
            };
        }
        size /= 1000.0;
    }
    String::new()
}

/// A size of memory in binary units: `37.5 GiB`.
pub fn memory(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < units.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_two_or_three_digits_at_every_limit() {
        let shown = [999, 1_000, 9_940, 9_960, 999_499, 999_500, 3_514_152, u64::MAX].map(bytes);
        assert_eq!(
            shown.join(" | "),
            "999 B | 1.0 kB | 9.9 kB | 10 kB | 999 kB | 1.0 MB | 3.5 MB | 18446744 TB"
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 44_426, 1_234_567].map(count).join(" "),
            "0 999 1,000 44,426 1,234,567"
        );
    }

    #[test]
    fn memory_is_counted_in_powers_of_two() {
        let shown = [0, 512, 1 << 20, 40_318_400_040, u64::MAX].map(memory).join(" | ");
        assert_eq!(shown, "0.0 KiB | 0.5 KiB | 1.0 MiB | 37.5 GiB | 16.0 EiB");
    }
}
