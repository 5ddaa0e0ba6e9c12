//! Frequency responses of the filters, measured with sines.
#![expect(
    clippy::float_arithmetic,
    reason = "sines and decibels are what is measured with"
)]

use std::f64::consts::TAU;

use proptest::prelude::*;

use super::Resampler;

const AMPLITUDE: f64 = 20_000.0;

fn sine(hertz: f64, rate: f64, count: usize) -> Vec<i16> {
    (0..count)
        .map(|n| (AMPLITUDE * (TAU * hertz * n as f64 / rate).sin()).round() as i16)
        .collect()
}

/// The level of a frequency, in decibels relative to the input sine.
fn level(samples: &[i16], hertz: f64, rate: f64) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (n, sample) in samples.iter().enumerate() {
        let angle = TAU * hertz * n as f64 / rate;
        cosine += f64::from(*sample) * angle.cos();
        sine += f64::from(*sample) * angle.sin();
    }
    let amplitude = 2.0 * cosine.hypot(sine) / samples.len() as f64;
    20.0 * (amplitude / AMPLITUDE).max(1e-9).log10()
}

/// A second after the filter's start, so that every whole frequency fits.
fn through(mut fir: Resampler, input: &[i16], rate: usize) -> Vec<i16> {
    let mut out = Vec::new();
    fir.run(input, &mut out);
    out.split_off(out.len() - rate)
}

#[test]
fn speech_passes_unchanged() {
    for hertz in [100.0, 300.0, 1_000.0, 2_000.0, 3_000.0, 3_400.0] {
        let up = through(
            Resampler::from_8_to_16(),
            &sine(hertz, 8_000.0, 9_000),
            16_000,
        );
        let down = through(
            Resampler::from_24_to_8(),
            &sine(hertz, 24_000.0, 27_000),
            8_000,
        );
        let back = through(
            Resampler::from_8_to_24(),
            &sine(hertz, 8_000.0, 9_000),
            24_000,
        );
        for (samples, rate) in [(up, 16_000.0), (down, 8_000.0), (back, 24_000.0)] {
            let level = level(&samples, hertz, rate);
            assert!(level.abs() < 0.01, "{hertz} Hz at {rate}: {level} dB");
        }
    }
}

#[test]
fn what_does_not_belong_stays_below_80_decibels() {
    for hertz in [100.0, 1_000.0, 3_000.0, 3_400.0] {
        let up = through(
            Resampler::from_8_to_16(),
            &sine(hertz, 8_000.0, 9_000),
            16_000,
        );
        let image = level(&up, 8_000.0 - hertz, 16_000.0);
        assert!(image < -80.0, "image of {hertz} Hz: {image} dB");
        let back = through(
            Resampler::from_8_to_24(),
            &sine(hertz, 8_000.0, 9_000),
            24_000,
        );
        for image in [8_000.0 - hertz, 8_000.0 + hertz] {
            let image = level(&back, image, 24_000.0);
            assert!(image < -80.0, "image of {hertz} Hz: {image} dB");
        }
    }
    for hertz in [4_600.0, 5_000.0, 7_000.0, 9_000.0, 11_500.0] {
        let down = through(
            Resampler::from_24_to_8(),
            &sine(hertz, 24_000.0, 27_000),
            8_000,
        );
        let alias = (hertz - 8_000.0 * (hertz / 8_000.0).round()).abs();
        let alias = level(&down, alias, 8_000.0);
        assert!(alias < -80.0, "alias of {hertz} Hz: {alias} dB");
    }
}

#[test]
fn one_leg_sounds_on_the_other_as_it_was() {
    for hertz in [100.0, 1_000.0, 3_400.0, 5_000.0, 7_000.0] {
        let out = through(
            Resampler::from_16_to_24(),
            &sine(hertz, 16_000.0, 18_000),
            24_000,
        );
        let level_of = |hertz: f64| level(&out, hertz, 24_000.0);
        assert!(
            level_of(hertz).abs() < 0.02,
            "{hertz} Hz: {} dB",
            level_of(hertz)
        );
        for image in [16_000.0 - hertz, 16_000.0 + hertz] {
            // Frequencies above 12 kHz fold back.
            let image = if image > 12_000.0 {
                24_000.0 - image
            } else {
                image
            };
            assert!(
                level_of(image) < -80.0,
                "image of {hertz} Hz: {} dB",
                level_of(image)
            );
        }
    }
}

#[test]
fn the_way_to_16_khz_and_from_there_to_8_keeps_speech_and_stops_the_rest() {
    let down_from_24 = |hertz: f64| {
        let input = sine(hertz, 24_000.0, 27_000);
        through(Resampler::from_24_to_16(), &input, 16_000)
    };
    let down_from_16 = |hertz: f64| {
        let input = sine(hertz, 16_000.0, 18_000);
        through(Resampler::from_16_to_8(), &input, 8_000)
    };
    for hertz in [100.0, 1_000.0, 3_400.0, 5_000.0, 7_000.0] {
        let passed = level(&down_from_24(hertz), hertz, 16_000.0);
        assert!(passed.abs() < 0.02, "{hertz} Hz: {passed} dB");
    }
    for hertz in [100.0, 1_000.0, 3_400.0] {
        let passed = level(&down_from_16(hertz), hertz, 8_000.0);
        assert!(passed.abs() < 0.02, "{hertz} Hz: {passed} dB");
    }
    for hertz in [9_000.0, 10_000.0, 11_500.0] {
        let alias = level(&down_from_24(hertz), 16_000.0 - hertz, 16_000.0);
        assert!(alias < -80.0, "alias of {hertz} Hz: {alias} dB");
    }
    for hertz in [4_600.0, 5_000.0, 7_000.0] {
        let alias = level(&down_from_16(hertz), 8_000.0 - hertz, 8_000.0);
        assert!(alias < -80.0, "alias of {hertz} Hz: {alias} dB");
    }
}

#[test]
fn full_scale_does_not_wrap() {
    let square: Vec<i16> = (0..2_400)
        .map(|n| if n / 40 % 2 == 0 { i16::MAX } else { i16::MIN })
        .collect();
    let mut out = Vec::new();
    Resampler::from_24_to_8().run(&square, &mut out);
    assert!(out[10..].windows(2).all(|pair| {
        let step = i32::from(pair[1]) - i32::from(pair[0]);
        step.abs() < 65_000 || pair[0].signum() != pair[1].signum()
    }));
    assert!(out.contains(&i16::MAX) && out.contains(&i16::MIN));
}

proptest! {
    #[test]
    fn pieces_give_what_the_whole_gives(
        samples in proptest::collection::vec(any::<i16>(), 0..600),
        cuts in proptest::collection::vec(1_usize..50, 0..40),
    ) {
        for make in [Resampler::from_8_to_16, Resampler::from_24_to_8, Resampler::from_8_to_24, Resampler::from_16_to_24, Resampler::from_24_to_16, Resampler::from_16_to_8] {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            make().run(&samples, &mut whole);
            let (mut fir, mut rest) = (make(), samples.as_slice());
            for cut in &cuts {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                fir.run(now, &mut pieces);
                rest = later;
            }
            fir.run(rest, &mut pieces);
            prop_assert_eq!(whole, pieces);
        }
    }
}
