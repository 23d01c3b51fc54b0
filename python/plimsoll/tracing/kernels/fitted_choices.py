"""Decision trees over what is known of a convolution without a device; made by bench/accuracy/fit_choices.py.

A branch is (feature, threshold, answer up to it, answer above it).
"""

TREES = {
    # 979 of 1006 are as measured.
    ("forward", 2): (
        "pixels",
        56.5,
        (
            "output_values",
            96256,
            ("engine", 53.5, True, ("all_pixels", 484, False, True)),
            (
                "weights",
                83968,
                True,
                (
                    "pixels",
                    42.5,
                    ("images", 12.0, False, True),
                    (
                        "workspace",
                        514386,
                        True,
                        ("engine", 54.0, ("output_values", 360640, True, False), False),
                    ),
                ),
            ),
        ),
        (
            "fewer_channels",
            400,
            ("workspace", 32.0, ("pixels", 680, ("images", 12.0, True, False), True), True),
            ("all_pixels", 7192, True, False),
        ),
    ),
    # 989 of 1006 are as measured.
    ("forward", 4): (
        "weights",
        966656,
        (
            "inputs",
            304,
            ("inputs", 14.0, ("inputs", 5.0, True, False), True),
            (
                "more_channels",
                428,
                ("outputs", 112, True, ("all_pixels", 2720, True, False)),
                (
                    "output_values",
                    105472,
                    ("input_values", 574208, True, ("inputs_per_output", 6.875, False, True)),
                    True,
                ),
            ),
        ),
        ("pixels", 96.5, ("input_values", 247808, ("inputs", 768, True, False), False), True),
    ),
    # 994 of 1006 are as measured.
    ("grad_input", 2): (
        "inputs",
        1088,
        (
            "input_values",
            89128960,
            (
                "outputs",
                1792,
                (
                    "fewer_channels",
                    152,
                    True,
                    (
                        "engine",
                        62.0,
                        (
                            "pixels",
                            69.5,
                            ("outputs", 180, True, ("outputs", 476, False, True)),
                            True,
                        ),
                        ("output_values", 17238528, True, False),
                    ),
                ),
                ("inputs", 768, ("all_pixels", 3616, False, True), True),
            ),
            ("images", 48.0, False, True),
        ),
        ("all_pixels", 73.5, True, ("outputs", 768, False, True)),
    ),
    # 993 of 1006 are as measured.
    ("grad_input", 4): (
        "more_channels",
        1088,
        (
            "pixels",
            69.5,
            (
                "fewer_channels",
                212,
                ("pixels_mod_8", 2.5, True, ("outputs", 144, True, False)),
                ("outputs", 380, ("outputs", 248, True, False), True),
            ),
            True,
        ),
        (
            "images",
            12.0,
            (
                "outputs",
                448,
                ("outputs", 244, True, False),
                ("inputs_per_output", 0.146, ("images", 2.5, False, True), True),
            ),
            ("weights", 241664, ("engine", 72.5, True, False), False),
        ),
    ),
    # 921 of 1008 are as measured.
    ("grad_weight", 2): (
        "pixels",
        56.5,
        (
            "workspace",
            4783440,
            (
                "inputs",
                848,
                False,
                (
                    "more_channels",
                    1792,
                    ("engine", 37.0, ("pixels", 18.5, False, True), False),
                    False,
                ),
            ),
            ("inputs", 424, True, False),
        ),
        (
            "weights",
            142336,
            (
                "images",
                12.0,
                (
                    "more_channels",
                    56.0,
                    False,
                    (
                        "inputs_mod_32",
                        20.0,
                        ("outputs", 56.0, ("inputs_mod_32", 12.0, True, False), True),
                        False,
                    ),
                ),
                True,
            ),
            ("engine", 49.0, True, ("pixels", 328, False, True)),
        ),
    ),
    # 981 of 1006 are as measured.
    ("grad_weight", 4): (
        "pixels",
        56.5,
        (
            "images",
            12.0,
            ("pixels", 18.5, False, ("weights", 966656, True, ("workspace", 1104016, True, False))),
            ("engine", 58.5, ("engine", 32.0, ("outputs", 700, False, True), True), False),
        ),
        (
            "inputs",
            44.0,
            ("engine", 44.0, ("engine", 37.0, True, False), True),
            ("workspace", 512, False, ("images", 1.5, ("pixels", 3616, True, False), True)),
        ),
    ),
    # 371 of 373 are as measured.
    ("winograd", 2): ("workspace", 895570, ("input_values", 182272, False, True), False),
    # 363 of 373 are as measured.
    ("winograd", 4): (
        "output_values",
        1589248,
        (
            "weights",
            86016,
            (
                "engine",
                59.0,
                (
                    "engine",
                    49.0,
                    ("output_values", 90624, ("output_values", 25792, False, True), False),
                    ("pixels", 92.5, ("inputs", 144, True, False), True),
                ),
                ("images", 3.0, True, ("all_pixels", 1752, ("outputs", 248, False, True), False)),
            ),
            False,
        ),
        ("output_values", 2228224, ("engine", 59.0, True, False), False),
    ),
}
