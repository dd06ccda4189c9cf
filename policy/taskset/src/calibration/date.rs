//! Times of the calendar as RFC 3339 has them, and seconds since 1970.

use toml::value::{Datetime, Offset};

const DAY: i64 = 86_400;

/// Seconds since 1970 as `2026-11-27T13:00:00Z`.
pub fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / DAY as u64, seconds % DAY as u64);
    let (year, month, day) = civil(i64::try_from(days).unwrap_or(i64::MAX / DAY));
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The seconds since 1970 of a time with date and offset; none for another one, and for what was before.
pub(super) fn seconds(time: Datetime) -> Option<u64> {
    let (date, offset) = (time.date?, time.offset?);
    let minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let time = time.time?;
    let of_day = i64::from(time.hour) * 3_600
        + i64::from(time.minute) * 60
        + i64::from(time.second.unwrap_or(0));
    let days = days(
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    u64::try_from(days * DAY + of_day - minutes * 60).ok()
}

/// The days from 1970-01-01 to a date, by eras of 400 years that begin in March: the day of a leap year is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day, the inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, at) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696),
            ("2026-11-27T13:00:00Z", 1_795_784_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(rfc3339(at), text);
            assert_eq!(seconds(text.parse().unwrap()), Some(at), "{text}");
        }
        let offset = "2026-11-27T15:30:00.75+02:30".parse().unwrap();
        assert_eq!(seconds(offset), Some(1_795_784_400));
        for text in ["2026-11-27", "2026-11-27T13:00:00", "1969-12-31T23:59:59Z"] {
            assert_eq!(seconds(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn each_day_of_400_years_returns() {
        for day in 0..146_097 {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }
}
