//! G.722 at 64 kbit/s (ITU-T G.722): 16 kHz in two bands, each by adaptive differential PCM.
//!
//! Names of the blocks (QUANTL, SCALEL, UPPOL2, …) and all tables are those of the recommendation, section 6.

/// Samples of one byte.
pub const SAMPLES: usize = 2;

/// The half of the quadrature mirror filter; the other half mirrors it.
const QMF: [i32; 12] = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11];
/// Decision levels of the lower band.
const Q6: [i32; 30] = [
    0, 35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940,
    1023, 1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
];
/// Output levels of the lower band, with 6 and 4 bits, and of the higher band.
const QM6: [i32; 64] = [
    -136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232,
    -9360, -8576, -7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776,
    -2400, -2032, -1688, -1360, -1040, -728, 24808, 21904, 19008, 16704, 14984, 13512, 12280,
    11192, 10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456, 4944, 4464, 4008, 3576, 3168, 2776,
    2400, 2032, 1688, 1360, 1040, 728, 432, 136, -432, -136,
];
const QM4: [i32; 16] = [
    0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584,
    1200, 0,
];
const QM2: [i32; 4] = [-7408, -1616, 7408, 1616];
/// Logarithmic scale factors: multipliers by code, and their inverse.
const WL: [i32; 16] = [
    -60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60,
];
const WH: [i32; 4] = [798, -214, 798, -214];
const ILB: [i32; 32] = [
    2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
    2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
];

fn saturated(value: i32) -> i32 {
    value.clamp(i32::from(i16::MIN), i32::from(i16::MAX))
}

/// The state of one band: its step size and its predictor of two poles and six zeros.
#[derive(Debug, Clone)]
struct Band {
    /// The predicted signal, and the part of the zeros.
    predicted: i32,
    of_zeros: i32,
    /// Logarithmic scale factor and quantizer step.
    scale: i32,
    step: i32,
    poles: [i32; 2],
    zeros: [i32; 6],
    /// Reconstructed signal, partially reconstructed signal and quantized differences; the newest first.
    reconstructed: [i32; 2],
    partial: [i32; 2],
    differences: [i32; 6],
}

impl Band {
    fn new(step: i32) -> Self {
        Self {
            predicted: 0,
            of_zeros: 0,
            scale: 0,
            step,
            poles: [0; 2],
            zeros: [0; 6],
            reconstructed: [0; 2],
            partial: [0; 2],
            differences: [0; 6],
        }
    }

    /// Adapts the lower band to its code of 6 bits (INVQAL, LOGSCL, SCALEL).
    fn adapt_low(&mut self, code: usize) {
        let difference = (self.step * QM4[code >> 2]) >> 15;
        self.adapt_scale(WL[code >> 2], 18_432, 8);
        self.predict(difference);
    }

    /// Adapts the higher band to its code of 2 bits (INVQAH, LOGSCH, SCALEH).
    fn adapt_high(&mut self, code: usize) {
        let difference = (self.step * QM2[code]) >> 15;
        self.adapt_scale(WH[code], 22_528, 10);
        self.predict(difference);
    }

    fn adapt_scale(&mut self, multiplier: i32, most: i32, shift: i32) {
        self.scale = (((self.scale * 127) >> 7) + multiplier).clamp(0, most);
        let mantissa = ILB[(self.scale >> 6 & 31) as usize];
        let exponent = shift - (self.scale >> 11);
        let linear = if exponent < 0 {
            mantissa << -exponent
        } else {
            mantissa >> exponent
        };
        self.step = linear << 2;
    }

    /// Adapts the predictor to a quantized difference, and predicts the next sample (block 4).
    fn predict(&mut self, difference: i32) {
        let reconstructed = saturated(self.predicted + difference);
        let partial = saturated(self.of_zeros + difference);
        self.adapt_poles(partial);
        self.adapt_zeros(difference);
        self.differences.rotate_right(1);
        self.differences[0] = difference;
        self.reconstructed = [reconstructed, self.reconstructed[0]];
        self.partial = [partial, self.partial[0]];
        // FILTEP, FILTEZ, PREDIC.
        let weighted = |weight: &i32, value: &i32| (weight * saturated(2 * value)) >> 15;
        let of_poles = self.poles.iter().zip(&self.reconstructed);
        let of_poles = saturated(of_poles.map(|(a, r)| weighted(a, r)).sum());
        let of_zeros = self.zeros.iter().zip(&self.differences);
        self.of_zeros = saturated(of_zeros.map(|(b, d)| weighted(b, d)).sum());
        self.predicted = saturated(of_poles + self.of_zeros);
    }

    /// UPPOL2, UPPOL1.
    fn adapt_poles(&mut self, partial: i32) {
        let same = |before: i32| (partial < 0) == (before < 0);
        let first = saturated(4 * self.poles[0]);
        let first = if same(self.partial[0]) { -first } else { first };
        let towards = if same(self.partial[1]) { 128 } else { -128 };
        let second = towards + (first.min(32_767) >> 7) + ((self.poles[1] * 32_512) >> 15);
        let second = second.clamp(-12_288, 12_288);
        let towards = if same(self.partial[0]) { 192 } else { -192 };
        let limit = 15_360 - second;
        let first = towards + ((self.poles[0] * 32_640) >> 15);
        self.poles = [first.clamp(-limit, limit), second];
    }

    /// UPZERO.
    fn adapt_zeros(&mut self, difference: i32) {
        let step = if difference == 0 { 0 } else { 128 };
        for (zero, before) in self.zeros.iter_mut().zip(&self.differences) {
            let same = (difference < 0) == (*before < 0);
            let towards = if same { step } else { -step };
            *zero = saturated(towards + ((*zero * 32_640) >> 15));
        }
    }
}

/// The last samples of the filter that splits or joins the bands, the newest last.
#[derive(Debug, Clone, Default)]
struct Filter([i32; 24]);

impl Filter {
    /// Takes two samples. Returns the sums over the even and over the odd ones.
    fn run(&mut self, first: i32, second: i32) -> (i32, i32) {
        self.0.copy_within(2.., 0);
        self.0[22..].copy_from_slice(&[first, second]);
        let pairs = self.0.chunks_exact(2);
        let even = pairs
            .clone()
            .zip(QMF)
            .map(|(pair, weight)| pair[0] * weight);
        let odd = pairs
            .zip(QMF.iter().rev())
            .map(|(pair, weight)| pair[1] * weight);
        (even.sum(), odd.sum())
    }
}

#[derive(Debug, Clone)]
pub struct G722Encoder {
    filter: Filter,
    low: Band,
    high: Band,
}

impl Default for G722Encoder {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            low: Band::new(32),
            high: Band::new(8),
        }
    }
}

impl G722Encoder {
    /// Appends a byte for each two samples of 16 kHz.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        for pair in samples.chunks_exact(SAMPLES) {
            let (even, odd) = self.filter.run(i32::from(pair[0]), i32::from(pair[1]));
            let low = self.quantize_low((odd + even) >> 14);
            self.low.adapt_low(low);
            let high = self.quantize_high((odd - even) >> 14);
            self.high.adapt_high(high);
            out.push((high << 6 | low) as u8);
        }
    }

    /// SUBTRA, QUANTL: the code of 6 bits.
    fn quantize_low(&self, sample: i32) -> usize {
        let difference = saturated(sample - self.low.predicted);
        let size = if difference < 0 {
            !difference
        } else {
            difference
        };
        let level = Q6[1..]
            .iter()
            .take_while(|level| size >= (**level * self.low.step) >> 12)
            .count();
        match (difference < 0, level) {
            (true, 0) => 63,
            (true, 1) => 62,
            (true, level) => 33 - level,
            (false, level) => 61 - level,
        }
    }

    /// SUBTRA, QUANTH: the code of 2 bits.
    fn quantize_high(&self, sample: i32) -> usize {
        let difference = saturated(sample - self.high.predicted);
        let size = if difference < 0 {
            !difference
        } else {
            difference
        };
        let is_large = size >= (564 * self.high.step) >> 12;
        match (difference < 0, is_large) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        }
    }
}

#[derive(Debug, Clone)]
pub struct G722Decoder {
    filter: Filter,
    low: Band,
    high: Band,
}

impl Default for G722Decoder {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            low: Band::new(32),
            high: Band::new(8),
        }
    }
}

impl G722Decoder {
    /// Appends two samples of 16 kHz for each byte.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Vec<i16>) {
        let limited = |value: i32| value.clamp(-16_384, 16_383);
        for byte in bytes {
            let (low_code, high_code) = (usize::from(byte & 63), usize::from(byte >> 6));
            let low = limited(self.low.predicted + ((self.low.step * QM6[low_code]) >> 15));
            self.low.adapt_low(low_code);
            let high = limited(self.high.predicted + ((self.high.step * QM2[high_code]) >> 15));
            self.high.adapt_high(high_code);
            let (even, odd) = self.filter.run(low + high, low - high);
            out.extend([odd, even].map(|sum| saturated(sum >> 11) as i16));
        }
    }
}

#[cfg(test)]
mod tests;
